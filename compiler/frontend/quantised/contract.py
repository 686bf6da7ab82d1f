"""Contractions of dequantised bytes as contractions of the bytes themselves.

`Conv(Dequantize(x), Dequantize(w))` is `Cast(ConvInteger(x, w)) * (x_scale * w_scale)`, which
differs from it by rounding only.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import replace

import numpy as np

from compiler.frontend.builder import Builder
from compiler.frontend.evaluate import element_type
from compiler.frontend.graph import Inputs, Value
from compiler.frontend.quantised.dequantised import Dequantised
from compiler.frontend.rules.call import Call
from compiler.frontend.rules.quantised import (
    float8_convolution,
    integer_convolution,
    integer_matmul,
)
from compiler.net.node import Node


def _scaled(call: Call, sums: Value, scale: Value) -> Value:
    """Sums as numbers."""
    if sums.dtype != scale.dtype:
        sums = call.one("Cast", sums, to=element_type(scale.dtype))
    return call.one("Mul", sums, scale)


def _conv(call: Call, left: Dequantised, right: Dequantised) -> Value:
    zeros = left.zero, right.zero
    sums = (
        float8_convolution(call, call.data, call.operand(1))
        if left.is_float8
        else integer_convolution(call, call.data, call.operand(1), zeros)
    )
    column = [-1, *[1] * (sums.rank - 2)]
    scale = right.scale if right.whole else call.reshaped(right.scale, column)
    result = _scaled(call, sums, call.one("Mul", left.scale, scale))
    bias = call.input(2)
    return result if bias is None else call.one("Add", result, call.reshaped(bias, column))


def _matmul(call: Call, left: Dequantised, right: Dequantised) -> Value:
    zeros = left.zero, right.zero
    if left.is_float8:
        sums = call.one("MatMulFloat8", call.data, call.operand(1))
    else:
        sums = integer_matmul(call, call.data, call.operand(1), zeros)
    return _scaled(call, sums, call.one("Mul", left.scale, right.scale))


def _gemm(call: Call, left: Dequantised, right: Dequantised) -> Value:
    flips = call["transA"], call["transB"]
    operands = zip((call.data, call.operand(1)), flips, strict=True)
    inputs: Inputs = [call.one("Transpose", v, perm=[1, 0]) if f else v for v, f in operands]
    result = _matmul(replace(call, inputs=inputs), left, right)
    addend = call.input(2)
    if call["alpha"] != 1:
        result = call.one("Mul", result, call.builder.constant(call["alpha"], result.dtype))
    if addend is None:
        return result
    if call["beta"] != 1:
        addend = call.one("Mul", addend, call.builder.constant(call["beta"], result.dtype))
    return call.one("Add", result, addend)


def contracted(call: Call, left: Dequantised, right: Dequantised) -> Value:
    """The contraction of the integers that a call has in place of two numbers, as floats."""
    if call.op_type == "Conv":
        return _conv(call, left, right)
    return (_gemm if call.op_type == "Gemm" else _matmul)(call, left, right)


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
    builder: Builder,
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


def _factor(builder: Builder, maker: Node[Value], scale: Value) -> Value | None:
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
