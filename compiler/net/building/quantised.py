"""Quantised operators as arithmetic: exact sums of integers, rescaling, rounding."""

from collections.abc import Mapping
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from compiler.net.building.builder import NetBuilder
from compiler.net.evaluation.quantisation import scaled_parts
from compiler.net.graph import Value
from compiler.net.node import Node
from compiler.net.operators.injective import TakenIndices, slice_of
from compiler.tensors.dtypes import ALL, ELEMENTS, element_type
from compiler.tensors.substitution import as_extent

OF_RANGE = "of_range"
"""The attribute of a quantisation whose scale is that of the tensor's range."""


def along(builder: NetBuilder, value: Value, rank: int, axis: int) -> Value:
    """A scale or zero point, perhaps of one axis, shaped to broadcast over a tensor of a rank."""
    if value.shape == (1,):
        return builder.reshaped(value, [])
    following = rank - 1 - axis
    if not value.shape or not following:
        return value
    return builder.reshaped(value, [*value.shape, *[1] * following])


def _part(builder: NetBuilder, node: Node[Value], index: int) -> Value:
    """A scale or zero point of a QuantizeLinear or a DequantizeLinear for each element."""
    value = node.operand(index)
    x = node.operand(0)
    if not node["block_size"] and value.rank < 2:
        return along(builder, value, x.rank, node["axis"])
    parts = scaled_parts(node, index)
    assert parts is not None
    axis, block = parts
    if value.dtype not in ALL:  # types that Expand does not support
        value = builder.cast(value, "int32" if "int" in value.dtype else "float32")
    before, count, after = value.shape[:axis], value.shape[axis], value.shape[axis + 1 :]
    column = builder.reshaped(value, [*before, count, 1, *after])
    repeated = builder.one(
        "Expand", column, shape=list(map(as_extent, [*before, count, block, *after]))
    )
    spread = builder.reshaped(repeated, [*before, block * count, *after])
    if spread.shape == x.shape:
        return spread
    every = [TakenIndices(0, 1, size) for size in x.shape]
    return builder.one("Slice", spread, **slice_of(every))


def less_zero_point(builder: NetBuilder, value: Value, zero: Value | None, dtype: str) -> Value:
    """The value as another type, its zero point subtracted."""
    value = builder.cast(value, dtype)
    return value if zero is None else builder.one("Sub", value, builder.cast(zero, dtype))


def saturated(
    builder: NetBuilder, value: Value, zero: Value | None, dtype: str, saturate: int | None = None
) -> Value:
    """The nearest integer plus the zero point, within the range of an integer dtype.

    Floats of a byte, whose zero point is 0, are rounded by a Cast; constants may be small integers.
    """
    if "float" in dtype:
        return builder.one("Cast", value, to=element_type(dtype), saturate=saturate)
    value = builder.one("Round", value)
    if zero is not None:
        value = builder.one("Add", value, builder.cast(zero, value.dtype))
    limits = ml_dtypes.iinfo(dtype)
    low, high = (builder.constant(n, value.dtype) for n in (limits.min, limits.max))
    return builder.cast(builder.one("Clip", value, low, high), dtype)


def quantised_by_arithmetic(
    builder: NetBuilder, node: Node[Value], quotient: Value | None = None
) -> Value:
    """Divide, round to even, add the zero point, saturate; the quotient may be known."""
    scale = _part(builder, node, 1)
    zero = _part(builder, node, 2) if node.has(2) else None
    precision = ELEMENTS.get(node["precision"]) or scale.dtype
    scaled = quotient or builder.one(
        "Div", builder.cast(node.operand(0), precision), builder.cast(scale, precision)
    )
    return saturated(builder, scaled, zero, quantised_dtype(node), node["saturate"])


def quantised_dtype(node: Node[Value]) -> str:
    """The dtype that a QuantizeLinear gives; spread over blocks its zero point may be wider."""
    zero = node.input(2)
    return ELEMENTS.get(node["output_dtype"]) or ("uint8" if zero is None else zero.dtype)


def dequantised_by_arithmetic(builder: NetBuilder, node: Node[Value]) -> Value:
    """Subtract the zero point, multiply."""
    x = node.operand(0)
    scale = _part(builder, node, 1)
    zero = _part(builder, node, 2) if node.has(2) else None
    exact = scale.dtype if "float" in x.dtype else "int32"
    integers = x if zero is None else less_zero_point(builder, x, zero, exact)
    result = builder.one("Mul", builder.cast(integers, scale.dtype), scale)
    return builder.cast(result, ELEMENTS.get(node["output_dtype"]) or scale.dtype)


def rows_of(builder: NetBuilder, value: Value, rank: int) -> Value:
    """A zero point or scale of each row of the left matrix."""
    return along(builder, value, rank, rank - 2) if rank > 1 else value


def _signed(builder: NetBuilder, value: Value, zero: Value | None) -> tuple[Value, Value | None]:
    """Weights as int8 and their zero point as int32; None for 0.

    Constant weights have none if their differences from it are int8, as those of seven bits are.
    """
    differences = fitting_differences(value, zero)
    if differences is not None:
        return builder.constant(differences, "int8"), None
    zero = None if zero is None else builder.cast(zero, "int32")
    if value.dtype == "uint8":
        half = builder.constant(128, "int32")
        value = builder.cast(builder.one("Sub", builder.cast(value, "int32"), half), "int8")
        zero = builder.one("Sub", zero or builder.constant(0, "int32"), half)
    known = None if zero is None else zero.array
    return value, zero if known is None or known.any() else None


def fitting_differences(value: Value, zero: Value | None) -> np.ndarray | None:
    """Constant weights less their one zero point, if they are int8; None otherwise."""
    if zero is None or value.array is None or zero.array is None or zero.array.size != 1:
        return None
    differences = value.array.astype("int32") - zero.array.astype("int32").reshape(())
    limits = np.iinfo("int8")
    inside = limits.min <= differences.min() and differences.max() <= limits.max
    return differences.astype("int8") if inside else None


def integer_matmul(
    builder: NetBuilder, a: Value, b: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """An exact MatMul: zero points of rows of A, and those of B, are subtracted from its sums."""
    if 1 in (a.rank, b.rank):
        # A MatMul of vectors, as one of matrices with one row or column.
        left = builder.reshaped(a, [1, *a.shape]) if a.rank == 1 else a
        right = builder.reshaped(b, [*b.shape, 1]) if b.rank == 1 else b
        result = integer_matmul(builder, left, right, zeros)
        lead = result.shape[:-2]
        rows = () if a.rank == 1 else result.shape[-2:-1]
        columns = () if b.rank == 1 else result.shape[-1:]
        return builder.reshaped(result, [*lead, *rows, *columns])
    b, b_zero = _signed(builder, b, zeros[1])
    a_zero = zeros[0]
    if b_zero is not None:
        return _less_rows(builder, a, b, (a_zero, b_zero))
    by_row = a_zero is not None and prod(a_zero.shape) > 1
    result = builder.one("MatMulInteger", a, b, None if by_row or a_zero is None else a_zero)
    if a_zero is not None and by_row:
        sums = builder.one("ReduceSum", builder.cast(b, "int32"), axes=[-2])
        shift = builder.one("Mul", sums, builder.cast(rows_of(builder, a_zero, a.rank), "int32"))
        result = builder.one("Sub", result, shift)
    return result


def _less_rows(builder: NetBuilder, a: Value, b: Value, zeros: tuple[Value | None, Value]) -> Value:
    """A MatMul by weights with a zero point, which is subtracted times the sums of A's rows.

    `(a - y) (b - z) = a b - y (1 (b - z)) - (a 1) z`: rows are sums of A's integers as they are,
    and for constant weights the sums that Y is multiplied by are constants.
    """
    a_zero, b_zero = zeros
    result = builder.one("MatMulInteger", a, b)
    if a_zero is not None:
        exact = less_zero_point(builder, b, b_zero, "int32")
        sums = builder.one("ReduceSum", exact, axes=[-2])
        shift = builder.one("Mul", sums, builder.cast(rows_of(builder, a_zero, a.rank), "int32"))
        result = builder.one("Sub", result, shift)
    rows = builder.one("ReduceSum", builder.cast(a, "int32"), axes=[-1])
    return builder.one("Sub", result, builder.one("Mul", rows, b_zero))


def integer_convolution(
    builder: NetBuilder,
    x: Value,
    w: Value,
    zeros: tuple[Value | None, Value | None],
    attributes: Mapping[str, Any],
) -> Value:
    """An exact convolution: zero points of filters times sums of windows are subtracted."""
    w, zero = _signed(builder, w, zeros[1])
    (result,) = builder.emit("ConvInteger", [x, w, zeros[0]], attributes)
    if zero is None:
        return result
    filters = 1 if attributes["group"] == 1 else w.shape[0]
    ones = builder.constant(np.ones((filters, *w.shape[1:])), "int8")
    (windows,) = builder.emit("ConvInteger", [x, ones, zeros[0]], attributes)
    return builder.one("Sub", result, builder.one("Mul", windows, along(builder, zero, w.rank, 1)))
