"""Contractions of dequantised bytes as contractions of the bytes themselves.

`Conv(Dequantize(x), Dequantize(w))` is `Cast(ConvInteger(x, w)) * (x_scale * w_scale)`, which
differs from it by rounding only.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import replace

import numpy as np

from compiler.net.building.builder import NetBuilder
from compiler.net.building.quantised import (
    along,
    integer_convolution,
    integer_matmul,
)
from compiler.net.graph import Value
from compiler.net.node import Node
from compiler.rewrite.quantised.dequantised import Dequantised


def _scaled(builder: NetBuilder, sums: Value, scale: Value) -> Value:
    """Sums as numbers."""
    return builder.one("Mul", builder.cast(sums, scale.dtype), scale)


def _conv(builder: NetBuilder, node: Node[Value], left: Dequantised, right: Dequantised) -> Value:
    x, w = node.operand(0), node.operand(1)
    zeros = left.zero, right.zero
    sums = (
        builder.emit("ConvFloat8", [x, w], node.attributes)[0]
        if left.is_float8
        else integer_convolution(builder, x, w, zeros, node.attributes)
    )
    scale = right.scale if right.whole else along(builder, right.scale, sums.rank, 1)
    result = _scaled(builder, sums, builder.one("Mul", left.scale, scale))
    bias = node.input(2)
    return (
        result if bias is None else builder.one("Add", result, along(builder, bias, sums.rank, 1))
    )


def _matmul(builder: NetBuilder, node: Node[Value], left: Dequantised, right: Dequantised) -> Value:
    operands = node.operand(0), node.operand(1)
    sums = (
        builder.one("MatMulFloat8", *operands)
        if left.is_float8
        else integer_matmul(builder, *operands, (left.zero, right.zero))
    )
    return _scaled(builder, sums, builder.one("Mul", left.scale, right.scale))


def _gemm(builder: NetBuilder, node: Node[Value], left: Dequantised, right: Dequantised) -> Value:
    pairs = zip((node.operand(0), node.operand(1)), (node["transA"], node["transB"]), strict=True)
    inputs = [builder.one("Transpose", v, perm=[1, 0]) if flips else v for v, flips in pairs]
    result = _matmul(builder, replace(node, inputs=inputs), left, right)
    addend = node.input(2)
    if node["alpha"] != 1:
        result = builder.one("Mul", result, builder.constant(node["alpha"], result.dtype))
    if addend is None:
        return result
    if node["beta"] != 1:
        addend = builder.one("Mul", addend, builder.constant(node["beta"], result.dtype))
    return builder.one("Add", result, addend)


def contracted(
    builder: NetBuilder, node: Node[Value], left: Dequantised, right: Dequantised
) -> Value:
    """The contraction of the integers that a node has in place of two numbers, as floats."""
    if node.type == "Conv":
        return _conv(builder, node, left, right)
    return (_gemm if node.type == "Gemm" else _matmul)(builder, node, left, right)


# Division of scaled sums by the scale of what they are quantised to, without a division.
#
# `(sums * s + b) / y` is `sums * (s / y) + b / y`, which differs from it by rounding only: it is
# what onnxruntime's quantised convolutions compute. Of exact numbers, as dequantised integers are,
# the quotient stays one: halves would be rounded otherwise than by ONNX's formula.
LONGEST_CHAIN = 8
"""The most operators between a quantisation and the sums that its scale divides."""


def is_of_sums(
    value: Value, makers: Mapping[Value, Node[Value]], sums: Set[Value], depth: int = 0
) -> bool:
    """Whether a value has the scaled sums of a contraction among its terms."""
    if value in sums:
        return True
    maker = makers.get(value)
    if maker is None or maker.type not in ("Add", "Relu") or depth > LONGEST_CHAIN:
        return False
    terms = [term for term in maker.inputs if term is not None]
    return any(is_of_sums(term, makers, sums, depth + 1) for term in terms)


def divided(
    builder: NetBuilder,
    value: Value,
    scale: Value,
    makers: Mapping[Value, Node[Value]],
    scaled: Callable[[Value], Value | None] = lambda value: None,
    depth: int = 0,
) -> Value | None:
    """A value divided by a positive constant; None unless constants scale all its terms.

    `scaled` divides the scale of a dequantised value, if the value is one.
    """
    if value.array is not None:
        return builder.one("Div", value, scale)
    quotient = scaled(value)
    maker = makers.get(value)
    if quotient is not None or maker is None or depth > LONGEST_CHAIN:
        return quotient
    if maker.type == "Mul":
        return _factor(builder, maker, scale)
    if maker.type not in ("Add", "Relu"):
        return None
    operands = (value for value in maker.inputs if value is not None)
    terms = [divided(builder, term, scale, makers, scaled, depth=depth + 1) for term in operands]
    return None if None in terms else builder.one(maker.type, *terms)


def _factor(builder: NetBuilder, maker: Node[Value], scale: Value) -> Value | None:
    """A multiplication by a constant, divided."""
    one, other = maker.operand(0), maker.operand(1)
    if other.array is None:
        one, other = other, one
    if other.array is None:
        return None
    return builder.one("Mul", one, builder.one("Div", other, scale))


def is_divisor(value: Value) -> bool:
    """Whether a value is a positive constant number."""
    return value.array is not None and not value.shape and bool(np.all(value.array > 0))
