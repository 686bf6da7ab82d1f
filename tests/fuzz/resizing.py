"""Resize and Upsample in float64, and where onnxruntime computes them otherwise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.frontend.interpreter import evaluate_node
from tests.fuzz.call import Call

Array = NDArray[Any]


def interpolates(call: Call) -> bool:
    """Whether a Resize or an Upsample computes with neighbours."""
    return call.attributes.get("mode") in (b"linear", b"cubic")


def _scales(call: Call) -> Array | None:
    """The scales of a Resize or an Upsample; None where it has sizes."""
    if "scales" in call.attributes:
        return np.array(call.attributes["scales"], np.float32)
    place = 1 if call.op == "Upsample" or call.opset < 11 else 2
    scales = call.inputs[place] if place < len(call.inputs) else None
    return None if scales is None or not scales.size else scales


def is_whole_resize(call: Call) -> bool:
    """Whether integers are interpolated."""
    known = call.op in ("Resize", "Upsample") and interpolates(call)
    return known and call.inputs[0].dtype.kind in "iu"


def resized(call: Call, dtype: Any) -> Array:
    """Interpolated in float64, as a dtype.

    The old operators count from the corners of pixels, and enlarge by rounding down.
    """
    attributes = {n: v.decode() if isinstance(v, bytes) else v for n, v in call.attributes.items()}
    sizes = call.inputs[3] if call.opset >= 11 and len(call.inputs) > 3 else None
    roi = call.inputs[1] if call.opset >= 11 else None
    if call.opset < 11:
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    inputs = [call.inputs[0].astype(dtype), roi, _scales(call), sizes]
    (result,) = evaluate_node("Resize", inputs, attributes)
    assert result is not None
    return result
