"""Resize and Upsample."""

from typing import Any

import numpy as np

from tests.fuzz.catalogue.registry import generates
from tests.fuzz.catalogue.windows import image
from tests.fuzz.grower import Grower

_SCALES = (0.5, 0.6, 0.75, 1.0, 1.1, 1.5, 2.0, 3.0)
"""Thirds of a pixel have no float, and make ties of integers; 1.1 keeps short axes as they are."""


@generates("Resize")
def resize(g: Grower, op: str) -> None:
    """Modes, coordinates, rounding, scales or sizes."""
    x = image(g, dtypes=("float32", "uint8", "int8", "int32"))
    shape = g.values[x].shape
    g.require(len(shape) == 4)
    mode = g.draw.choice(["nearest", "linear", "cubic"])
    scales = [1.0, 1.0, *(g.draw.choice(_SCALES) for _ in shape[2:])]
    if g.opset < 11:
        mode = "nearest" if mode == "cubic" else mode
        given = [g.constant(np.array(scales, np.float32))] if g.opset >= 9 else []
        name = "Resize" if g.opset == 10 else "Upsample"
        g.emit(name, [x, *given], mode=mode, scales=None if given else scales)
        return
    attributes = _attributes(g, mode)
    empty = "" if g.opset >= 13 else g.constant(np.zeros(0, np.float32))
    if g.draw.chance(0.5):
        roi = empty
        if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
            region = [0.0, 0.0, 0.25, 0.1, 1.0, 1.0, 0.7, g.draw.choice([0.9, 1.2])]
            roi = g.constant(np.array(region, np.float32))
        g.emit(op, [x, roi, g.constant(np.array(scales, np.float32))], mode=mode, **attributes)
        return
    if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        del attributes["coordinate_transformation_mode"]
    sizes = [*shape[:2], *(max(1, int(n * f)) for n, f in zip(shape[2:], scales[2:], strict=True))]
    g.emit(op, [x, empty, empty, g.ints(sizes)], mode=mode, **attributes)


def _attributes(g: Grower, mode: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    transformations = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
    transformations += ["tf_crop_and_resize"]
    transformations += ["half_pixel_symmetric"] if g.opset >= 19 else []
    if g.draw.chance(0.7):
        found["coordinate_transformation_mode"] = g.draw.choice(transformations)
    if found.get("coordinate_transformation_mode") == "tf_crop_and_resize" and g.draw.chance(0.5):
        found["extrapolation_value"] = g.draw.choice([-2.75, 3.0, 7.5])
    if mode == "nearest" and g.draw.chance(0.6):
        roundings = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        found["nearest_mode"] = g.draw.choice(roundings)
    if mode == "cubic" and g.draw.chance(0.5):
        found["cubic_coeff_a"] = -0.5
        found["exclude_outside"] = 1
    if mode != "nearest" and g.opset >= 18 and g.draw.chance(0.3):
        found["antialias"] = 1
    return found
