"""Which nodes of Resize and Upsample meet a rule of semantics."""

from math import floor, isfinite

import numpy as np

from compiler.frontend.node import ModelNode
from compiler.net.evaluation.resize import resamples_in_place
from compiler.net.operators.canonical import known_node
from compiler.net.operators.resize import scaled_size
from compiler.tensors.substitution import is_symbolic

WHOLE = ("int32", "int8", "uint8")
"""The integers that onnxruntime interpolates."""


def elements_of(use: ModelNode, index: int) -> np.ndarray | None:
    """The elements of a constant input, in order; None for others and where there are none.

    Rules are asked before shapes are checked: what should be a vector may have any rank.
    """
    value = use.input(index)
    array = None if value is None else value.array
    return array.reshape(-1) if array is not None and array.size else None


def fractional_corners(use: ModelNode) -> bool:
    """Whether coordinates count from the corners of a size that is a fraction.

    The only element of an axis, or of a result, is at 0 in any case.
    """
    attributes = use.attributes
    scales = elements_of(use, 2)
    aligned = use["coordinate_transformation_mode"] == "align_corners"
    # antialiased integers are rounded in fixed point, and differ by more than corners
    fixed = bool(use["antialias"]) and use.data.dtype in WHOLE
    if scales is None or not aligned or fixed or not _interpolates(use):
        return False
    axes = attributes.get("axes") or range(len(use.shape()))
    extents = [use.shape()[axis] for axis in axes]
    numbers = [
        (n, scale)
        for n, scale in zip(extents, scales, strict=False)
        if not (is_symbolic(n) and float(scale).is_integer())
    ]
    pairs = [(n, np.float32(n) * np.float32(scale)) for n, scale in numbers]
    return any(n > 1 and floor(size) > 1 and size != floor(size) for n, size in pairs)


def _interpolates(use: ModelNode) -> bool:
    return use["mode"] in ("linear", "bilinear", "cubic")


def rounded_integers(use: ModelNode) -> bool:
    """Whether integers are interpolated, or filled with a fraction, that onnxruntime truncates."""
    return _interpolated_integers(use) or _filled_with_a_fraction(use)


def _filled_with_a_fraction(use: ModelNode) -> bool:
    crops = use["coordinate_transformation_mode"] == "tf_crop_and_resize"
    fill = float(use["extrapolation_value"] or 0) if use.op_type == "Resize" else 0.0
    nearest = crops and use["mode"] == "nearest" and use.data.dtype in WHOLE
    return nearest and isfinite(fill) and not fill.is_integer() and not _is_copied(use)


def _interpolated_integers(use: ModelNode) -> bool:
    linear = use["mode"] in ("linear", "bilinear")
    if not linear or use.data.dtype not in WHOLE:
        return False
    # with antialias, and with the channels last, onnxruntime rounds in fixed point
    plain = not use["antialias"] and not _has_channels_last(use)
    return plain and not _is_copied(use)


def _is_copied(use: ModelNode) -> bool:
    """Whether constant scales or sizes leave every size as it is: onnxruntime gives the input."""
    scaled = _scaled_axes(use)
    pairs = ((use.shape()[axis], scale) for axis, scale in scaled if 0 < scale < np.inf)
    return bool(scaled) and all(scaled_size(n, scale) == n for n, scale in pairs)


def _has_channels_last(use: ModelNode) -> bool:
    """Whether a batch of images is resized along its second axis."""
    if len(use.shape()) != 4:
        return False
    return any(axis % 4 == 1 and scale != 1 for axis, scale in _scaled_axes(use))


def _gives_other_sizes(use: ModelNode) -> bool:
    """Whether constant scales or sizes change a size that a run decides."""
    axes, numbers = _axes_and_numbers(use)
    for axis, number in zip(axes, numbers, strict=False):
        size = use.shape()[axis]
        if not is_symbolic(size):
            continue
        if not isinstance(number, float):
            if number != size:
                return True
        elif 0 < number < np.inf and scaled_size(size, number) != size:
            return True
    return False


def _scaled_axes(use: ModelNode) -> list[tuple[int, float]]:
    """The axes that a Resize or an Upsample names with constant scales or sizes, and the scales."""
    shape = use.shape()
    pairs = zip(*_axes_and_numbers(use), strict=False)
    return [(axis, n if isinstance(n, float) else _ratio(n, shape[axis])) for axis, n in pairs]


def _ratio(size: int, extent: int) -> float:
    """The scale that makes a size of an extent."""
    return 1.0 if size == extent and extent else size / max(extent, 1)


def _axes_and_numbers(use: ModelNode) -> tuple[list[int], list[float] | list[int]]:
    """The axes that a Resize or an Upsample names, and their constant scales or sizes."""
    axes = list(use.attributes.get("axes") or range(len(use.shape())))
    if "scales" in use.attributes:
        return axes, [*map(float, use.attributes["scales"])]
    last = 1 if len(use.inputs) <= 2 else 2
    given = next((v for v in use.inputs[last:] if v is not None and v.shape != (0,)), None)
    if given is None or given.array is None:
        return axes, []
    return axes, given.array.reshape(-1).tolist()


def cropped_same_size(use: ModelNode) -> bool:
    """Whether an axis that keeps its size is cropped to a region."""
    roi = elements_of(use, 1)
    crops = use["coordinate_transformation_mode"] == "tf_crop_and_resize"
    if not crops or roi is None or resampled_same_size(use):
        return False
    scaled = _scaled_axes(use)
    regions = zip(*np.split(roi.reshape(-1)[: 2 * len(scaled)], 2), strict=False)
    pairs = zip(scaled, regions, strict=False)
    return any(scale == 1 and (start, end) != (0, 1) for (_, scale), (start, end) in pairs)


def resampled_same_axis(use: ModelNode) -> bool:
    """Whether antialiasing resamples an axis that keeps its size, by a scale that is not 1.

    Where all axes keep their sizes, corners are aligned or regions cropped, other rules say more.
    """
    crops = use["coordinate_transformation_mode"] == "tf_crop_and_resize"
    if not use["antialias"] or crops or not _interpolates(use) or _is_copied(use):
        return False
    pairs = [(use.shape()[axis], scale) for axis, scale in _scaled_axes(use)]
    scaled = ((n, scale) for n, scale in pairs if scale != 1 and 0 < scale < np.inf)
    kept = any(n != 0 and scaled_size(n, scale) == n for n, scale in scaled)
    return kept and not fractional_corners(use)


def resampled_same_size(use: ModelNode) -> bool:
    """Whether a Resize that keeps every size reads between its elements, or other ones.

    Corners that are aligned by whole sizes have a separate rule, and so have cropped regions.
    """
    if _gives_other_sizes(use):
        return False
    scaled = _scaled_axes(use)
    fits = len(scaled) == len(use.attributes.get("axes") or use.shape())
    if not fits or all(scale == 1 for _, scale in scaled) or fractional_corners(use):
        return False
    if 0 in use.shape() or not all(0 < scale < np.inf for _, scale in scaled):
        return False
    like = np.broadcast_to(np.zeros((), np.int8), use.shape())
    if use.op_type == "Upsample" or len(use.inputs) <= 2:  # of opset 10, which enlarges by floors
        scales = np.array([scale for _, scale in scaled], np.float32)
        mode = "linear" if _interpolates(use) else "nearest"
        old = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return resamples_in_place(known_node("Resize", [like, None, scales], {"mode": mode, **old}))
    operands = [None if value is None else value.array for value in use.inputs[1:]]
    crops = use["coordinate_transformation_mode"] == "tf_crop_and_resize"
    roi = operands[0] if crops else None
    if crops and (roi is None or roi.size != 2 * len(scaled)):
        return False
    return resamples_in_place(known_node("Resize", [like, roi, *operands[1:]], use.attributes))
