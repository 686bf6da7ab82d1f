"""Resize as onnxruntime computes it where no operator of the table does.

Integers are interpolated in float32, and the fractions of the results are dropped. A sum that
rounding moves below a whole number loses one by that, so each rounding has to be onnxruntime's: in
float64 two float32 are multiplied exactly, and added so that rounding the sum to float32 is
rounding once.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import isfinite

import numpy as np

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.types import in_float32, in_type
from compiler.frontend.semantics.table import RESIZE_ALIGN_CORNERS_SCALE
from compiler.frontend.unsupported import Unsupported
from compiler.net.building.builder import input_bytes
from compiler.net.evaluation.resize import (
    CoordinatesOfAxis,
    aligned_filters,
    float32_axes,
)
from compiler.net.graph import Attributes, Value
from compiler.net.node import TypedNode
from compiler.net.operators.canonical import known_node

Tap = tuple[np.ndarray, np.ndarray]
"""The source position of each element along an axis, and its weight."""


def aligned_antialiased(call: Call, attributes: Attributes) -> Value:
    """A Resize with antialias whose corners are those of whole sizes: a GEMM along each axis."""
    result = in_float32(call, call.data)
    use = _use(call, attributes)
    widths = [(len(axis.at), axis.extent) for axis in float32_axes(use)]
    nbytes = sum(8 * size * extent for size, extent in widths if size != extent)
    if not call.builder.folds(nbytes, input_bytes([call.data])):
        reason = f"its filters are matrices of {nbytes:,} bytes"
        remedy = f"compile with semantics={{{RESIZE_ALIGN_CORNERS_SCALE.name!r}: 'onnx'}}"
        raise Unsupported(reason, remedy)
    for axis, weights in aligned_filters(use):
        order = [i for i in range(result.rank) if i != axis] + [axis]
        matrix = call.builder.constant(weights.T, result.dtype)
        moved = call.one("MatMul", call.one("Transpose", result, perm=order), matrix)
        result = call.one("Transpose", moved, perm=np.argsort(order).tolist())
    return in_type(call, result, call.data.dtype)


def _use(call: Call, attributes: Attributes) -> TypedNode:
    """A Resize on a tensor of any content."""
    like = np.broadcast_to(np.zeros((), np.int8), call.data.shape)
    return known_node("Resize", [like], attributes)


def interpolated_integers(call: Call, attributes: Attributes) -> Value:
    """A linear Resize of integers, by its attributes in the canonical form."""
    # the innermost two or three, also where they stay as they are: the last element of such an
    # axis is its own neighbour, and its two halves are added one after the other
    inner = call.data.rank - (2 if call.data.rank % 2 == 0 else 3)
    use = _use(call, attributes)
    axes = [axis for axis in float32_axes(use) if axis.number >= inner]
    if 0 in call.data.shape or any(not axis.at.size for axis in axes):
        return call.one("Resize", call.data, **attributes)
    # of the combinations of neighbours, the last axis's change first
    parts = [_weighted(call, axes, choice) for choice in product(*map(_taps, axes))]
    total = reduce(lambda total, part: _rounded(call, "Add", total, part), parts)
    result = in_type(call, total, call.data.dtype)
    outside = [_along(call, axis, axis.outside) for axis in axes]
    if not any(mask.any() for mask in outside):
        return result
    number = float(use["extrapolation_value"])
    fill = call.scalar(int(number) if isfinite(number) else 0)
    mask = call.builder.constant(reduce(np.logical_or, outside), "bool")
    return call.one("Where", mask, fill, result)


def _taps(axis: CoordinatesOfAxis) -> tuple[Tap, Tap]:
    """The two neighbours of each position, which weigh a half where they are one element."""
    at = np.clip(axis.at, 0, axis.extent - 1).astype(np.float32)
    low = np.minimum(at.astype(np.int64), axis.extent - 1)
    high = np.minimum(low + 1, axis.extent - 1)
    half = np.where(low == high, np.float32(0.5), np.float32(0))
    far = np.maximum(np.abs(at - high.astype(np.float32)), half)
    near = np.maximum(np.abs(at - low.astype(np.float32)), half)
    return (low, far), (high, near)


def _weighted(call: Call, axes: Sequence[CoordinatesOfAxis], taps: Sequence[Tap]) -> Value:
    """The pixels at one tap of each axis, times their weight, which the last axis begins."""
    pixels = call.data
    weight = np.ones((), np.float32)
    for axis, (places, weights) in reversed([*zip(axes, taps, strict=True)]):
        pixels = call.one("Gather", pixels, call.vector(places.tolist()), axis=axis.number)
        weight = weight * _along(call, axis, weights)
    pixels = in_type(call, pixels, "float32")
    return _rounded(call, "Mul", pixels, call.builder.constant(weight, "float32"))


def _along(call: Call, axis: CoordinatesOfAxis, values: np.ndarray) -> np.ndarray:
    """The values of an axis as an array that broadcasts along the others."""
    return values.reshape(-1, *[1] * (call.data.rank - 1 - axis.number))


def _rounded(call: Call, op_type: str, left: Value, right: Value) -> Value:
    """An operator on float32, rounded to float32 whatever it is fused with."""
    wide = (in_type(call, value, "float64") for value in (left, right))
    return in_type(call, call.one(op_type, *wide), "float32")
