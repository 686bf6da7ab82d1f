"""Resize: each axis has source coordinates; interpolation is separable by axis."""

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import converted_array, is_floating
from compiler.net.node import Node, TypedNode

_PIECE = 1 << 18
"""The elements of a result that are interpolated at a time."""

_TIE = 1e-6
"""Coordinates this near to a half count as a half, as in onnxruntime, where float32 rounds them."""


TIE_OF_PIXELS = 1e-13
"""The rounding errors of interpolated integers, relative to their size, or to 10,000 if that is
more: those of coordinates along thousands of elements. Ties of scales such as 1.5 are some 1e-5
apart from what is none."""

LARGEST_TIE = 0.125
"""The farthest from a tie that counts as one: the errors of int64 are more than its distances."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """The resize of one axis, from `extent` to `size` elements, by a scale that may be inexact."""

    number: int
    extent: int
    size: int
    scale: float
    start: float
    end: float


def _scaled_sizes(node: TypedNode, axes: list[int]) -> list[tuple[float, int]]:
    """The scale and the size of each resized axis."""
    extents = [node.array(0).shape[axis] for axis in axes]
    if scales := node["scales"]:
        pairs = zip(scales, extents, strict=True)
        return [(s, floor(np.float32(n) * np.float32(s))) for s, n in pairs]
    asked = node["sizes"]
    if len(asked) != len(axes):
        raise ValueError(f"{len(asked)} sizes for {len(axes)} axes")
    ratios = [size / max(extent, 1) for size, extent in zip(asked, extents, strict=True)]
    policy = node["keep_aspect_ratio_policy"]
    if policy == "stretch":
        return list(zip(ratios, asked, strict=True))
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [(scale, floor(scale * extent + 0.5)) for extent in extents]


def _axes(node: TypedNode) -> list[_Axis]:
    shape = node.array(0).shape
    numbers: list[int] = node["axes"]
    crop = node["coordinate_transformation_mode"] == "tf_crop_and_resize"
    count = len(numbers)
    limits = node["roi"] if crop else [0.0] * count + [1.0] * count
    sized = zip(numbers, _scaled_sizes(node, numbers), limits[:count], limits[count:], strict=True)
    return [
        _Axis(number=a, extent=shape[a], size=size, scale=scale, start=start, end=end)
        for a, (scale, size), start, end in sized
    ]


def source_coordinates(
    mode: str, size: int, extent: int, scale: np.floating, roi: tuple[float, float] = (0.0, 1.0)
) -> Array:
    """The source coordinate of each of `size` elements, by ONNX's coordinate transformation.

    It is computed in the type of `scale`, which decides where neighbours are equally near.
    """
    x = np.arange(size, dtype=scale.dtype)
    match mode:
        case "asymmetric":
            return x / scale
        case "align_corners":
            # nearest as in onnxruntime, which counts whole elements; others as ONNX specifies
            length = size if scale.dtype == np.float32 else scale * extent
            return x * (extent - 1) / (length - 1) if length > 1 else x * 0
        case "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if size > 1 else x * 0
        case "half_pixel_symmetric":
            offset = extent / 2 * (1 - size / (scale * extent))
            wide = x.astype(np.float64)  # onnxruntime rounds the offset and the sum only
            return (offset + (wide + 0.5) / float(scale) - 0.5).astype(scale.dtype)
        case "tf_crop_and_resize":
            start, end = roi
            if size > 1:
                return start * (extent - 1) + x * (end - start) * (extent - 1) / (size - 1)
            return x * 0 + 0.5 * (start + end) * (extent - 1)
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        case "half_pixel":
            return (x + 0.5) / scale - 0.5
        case _:
            raise ValueError(f"the coordinate transformation {mode!r} is unknown")


def _coordinates(mode: str, axis: _Axis, kind: type[np.floating]) -> Array:
    """The source coordinates of an axis in a type."""
    limits = (axis.start, axis.end)
    return source_coordinates(mode, axis.size, axis.extent, kind(axis.scale), limits)


@dataclass(frozen=True, slots=True)
class CoordinatesOfAxis:
    """A resized axis with the source coordinate of each of its elements, in float32."""

    number: int
    extent: int
    at: Array
    outside: Array
    """Which elements are outside of a cropped region."""


def float32_axes(node: TypedNode) -> list[CoordinatesOfAxis]:
    """The axes that a Resize names, by number, with onnxruntime's coordinates."""
    mode = node["coordinate_transformation_mode"]
    crop = mode == "tf_crop_and_resize"
    axes: list[CoordinatesOfAxis] = []
    for axis in sorted(_axes(node), key=lambda axis: axis.number):
        same = axis.scale == 1  # which onnxruntime does not crop
        at = (
            np.arange(axis.size, dtype=np.float32) if same else _coordinates(mode, axis, np.float32)
        )
        outside = (at < 0) | (at > axis.extent - 1) if crop else np.zeros(len(at), bool)
        axes.append(CoordinatesOfAxis(axis.number, axis.extent, at, outside))
    return axes


def aligned_filters(node: TypedNode) -> list[tuple[int, Array]]:
    """The axes that a Resize by scales changes, and the weights [size, extent] along them.

    Corners are aligned by whole sizes, and filters widen by the scales, as in onnxruntime.
    """
    filters: list[tuple[int, Array]] = []
    for axis in _axes(node):
        if axis.size == axis.extent and axis.scale == 1:
            continue
        at = np.arange(axis.size, dtype=np.float64) * (axis.extent - 1) / max(axis.size - 1, 1)
        positions, weights = source_taps(node, at, axis.extent, axis.scale)
        matrix = np.zeros((axis.size, axis.extent))
        np.add.at(matrix, (np.arange(axis.size)[:, None], positions), weights)
        filters.append((axis.number, matrix))
    return filters


def resamples_in_place(node: TypedNode) -> bool:
    """Whether every axis keeps its size, and some element is not that of the same index."""
    axes = _axes(node)
    mode = node["coordinate_transformation_mode"]
    crop = mode == "tf_crop_and_resize"
    nearest = node["mode"] == "nearest"
    if any(axis.size != axis.extent for axis in axes):
        return False
    for axis in axes:
        if axis.extent == 1 or (axis.scale == 1 and not crop):
            continue
        at = _coordinates(mode, axis, np.float32 if nearest else np.float64)
        last = axis.extent - 1
        if crop and ((at < 0) | (at > last)).any():
            return True
        if nearest:
            at = np.clip(nearest_places(node, at), 0, last)
        if not np.array_equal(at, np.arange(axis.extent)):
            return True
    return False


def _rounded(x: Array, tie: int) -> Array:
    """The nearest integers; in a tie the lower one plus `tie`."""
    low = np.floor(x)
    over = x - low - x.dtype.type(0.5)
    return low + np.where(np.abs(over) <= x.dtype.type(_TIE), tie, over > 0)


def nearest_places(node: Node[Any], x: Array) -> Array:
    """The coordinates rounded to whole elements, as floats, which may be outside the source."""
    match node["nearest_mode"]:
        case "round_prefer_floor":
            return _rounded(x, 0)
        case "round_prefer_ceil":
            return _rounded(x, 1)
        case "floor":
            return np.floor(x)
        case "ceil":
            return np.ceil(x)
        case other:
            raise ValueError(f"the rounding {other!r} is unknown")


def _cubic(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def source_taps(node: Node[Any], x: Array, extent: int, scale: float) -> tuple[Array, Array]:
    """Source positions of linear or cubic interpolation and their weights, both [size, taps]."""
    cubic = node["mode"] == "cubic"
    shrink = min(1.0, scale) if node["antialias"] else 1.0
    reach = ceil((2 if cubic else 1) / shrink)
    positions = np.floor(x).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    distance = (positions - x[:, None]) * shrink
    a = node["cubic_coeff_a"]
    weights = _cubic(distance, a) if cubic else np.maximum(0.0, 1 - np.abs(distance))
    exclude = node["exclude_outside"]
    if exclude:
        weights = np.where((positions >= 0) & (positions < extent), weights, 0.0)
    if exclude or shrink < 1:
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(positions, 0, extent - 1), weights


def _interpolated(node: TypedNode, data: Array, axis: _Axis, x: Array) -> Array:
    """One axis as a weighted sum of its taps.

    In pieces: taps of a long axis, and what they meet, are several times as large as the result.
    """
    before = (slice(None),) * axis.number
    tail = (1,) * (data.ndim - 1 - axis.number)
    total = np.zeros((*data.shape[: axis.number], axis.size, *data.shape[axis.number + 1 :]))
    step = max(1, _PIECE * axis.extent // max(1, data.size))
    for start in range(0, axis.size, step):
        positions, weights = source_taps(node, x[start : start + step], axis.extent, axis.scale)
        piece = total[(*before, slice(start, start + step))]
        for position, weight in zip(positions.T, weights.T, strict=True):
            met = np.take(data, position, axis.number)
            weight = weight.reshape(-1, *tail)
            piece += np.where(weight == 0, 0, met * weight)
    return total


def _resized(node: TypedNode, data: Array, axis: _Axis) -> Array:
    mode = node["coordinate_transformation_mode"]
    crop = mode == "tf_crop_and_resize"
    nearest = node["mode"] == "nearest"
    if axis.size == axis.extent and axis.scale == 1 and not crop:
        return data
    x = _coordinates(mode, axis, np.float32 if nearest else np.float64)
    if nearest:
        position = np.clip(nearest_places(node, x), 0, axis.extent - 1).astype(np.int64)
        data = np.take(data, position, axis.number)
    else:
        data = _interpolated(node, data, axis, x)
    if crop:
        outside = (x < 0) | (x > axis.extent - 1)
        outside = outside.reshape(-1, *[1] * (data.ndim - 1 - axis.number))
        fill = np.asarray(node["extrapolation_value"])
        data = np.where(outside, _narrowed(fill, data.dtype), data)
    return data


@evaluates("Resize")
def evaluate_resize(node: TypedNode) -> Array:
    """Nearest, linear or cubic interpolation; integers are rounded and saturate."""
    mode = node["mode"]
    dtype = node.array(0).dtype
    if mode not in ("nearest", "linear", "cubic"):
        raise ValueError(f"the mode {mode!r} is unknown")
    data = node.array(0) if mode == "nearest" else node.array(0).astype(np.float64)
    axes = _axes(node)
    if not data.size:
        return _of_nothing(node.array(0), axes)
    for axis in axes:
        data = _resized(node, data, axis)
    return _narrowed(data, dtype)


def _of_nothing(data: Array, axes: list[_Axis]) -> Array:
    shape = list(data.shape)
    for axis in axes:
        shape[axis.number] = axis.size
    if 0 not in shape:
        raise ValueError(f"a tensor {data.shape} without elements cannot become {shape}")
    return np.zeros(shape, data.dtype)


def _narrowed(data: Array, dtype: np.dtype) -> Array:
    """Convert to the result's type: integers are rounded to even and saturate.

    A third of a pixel has no float: what is within rounding errors of a tie counts as one.
    """
    if data.dtype == dtype or is_floating(dtype):
        return converted_array(data, dtype)
    half = np.floor(data) + 0.5
    bound = np.minimum(TIE_OF_PIXELS * (10_000 + np.abs(data)), LARGEST_TIE)
    data = np.where(np.abs(data - half) <= bound, half, data)
    if dtype == np.bool_:
        return np.rint(data) > 0
    limits = np.iinfo(dtype)
    rounded = np.rint(data)
    inside = np.clip(rounded, float(limits.min), float(limits.max))
    return np.where(
        rounded >= float(limits.max), limits.max, converted_array(inside, dtype)
    ).astype(dtype)
