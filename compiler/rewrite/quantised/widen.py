"""Contractions of integers of a byte in wider types, for targets without kernels for them.

Floats hold two bytes multiplied exactly; sums in float32 are exact up to 2^24. Longer sums of a
MatMul are rounded where all that follows is their conversion to floats, to be scaled.
"""

from math import prod

import numpy as np

from compiler.net.building.builder import NetBuilder
from compiler.net.building.quantised import less_zero_point
from compiler.net.graph import Graph, Value
from compiler.net.node import Node
from compiler.net.operators.quantisation import QUANTISATION

LARGEST_EXACT_FLOAT = 1 << 24
"""The integers up to which float32 has all."""


def visible_sums(graph: Graph) -> set[Value]:
    """Values that are read otherwise than as floats that they are cast to."""
    visible = {value for _, value in graph.outputs}
    for operator in graph.operators:
        cast = operator.type == "Cast" and operator.output.dtype == "float32"
        scaled = operator.type in QUANTISATION and operator.operand(1).dtype == "float32"
        exact = operator.type == "DequantizeLinear" and operator.input(2) is not None
        if not cast and (exact or not scaled):
            visible.update(value for value in operator.inputs if value is not None)
    return visible


def in_wider_type(builder: NetBuilder, operator: Node[Value], exactly: bool) -> Value:
    """The int32 sums of a contraction of bytes, of operands less their zero points."""
    if operator.type == "ConvInteger":
        return _convolution(builder, operator)
    return _matmul(builder, operator, exactly)


def _difference(builder: NetBuilder, operator: Node[Value], index: int, dtype: str) -> Value:
    """An operand less its zero point, in a type."""
    return less_zero_point(builder, operator.operand(index), operator.input(index + 2), dtype)


def _matmul(builder: NetBuilder, operator: Node[Value], exactly: bool) -> Value:
    dtype = "int32" if exactly and _largest_sum(operator) > LARGEST_EXACT_FLOAT else "float32"
    operands = [_difference(builder, operator, index, dtype) for index in (0, 1)]
    return builder.cast(builder.one("MatMul", *operands), "int32")


def _largest_sum(operator: Node[Value]) -> int:
    """A bound of the sums of a MatMulInteger: that of its weights where they are constant."""
    weights = operator.operand(1)
    zero = [*operator.inputs, None, None][3]
    if weights.array is None or (zero is not None and zero.array is None):
        return weights.shape[-2] * 255 * 255
    sizes = np.abs(weights.array.astype("int64") - (0 if zero is None else zero.array))
    return 255 * int(sizes.sum(-2).max(initial=0))


def _convolution(builder: NetBuilder, operator: Node[Value]) -> Value:
    bound = prod(operator.operand(1).shape[1:]) * 255 * 255
    dtype = "float32" if bound <= LARGEST_EXACT_FLOAT else "float64"
    operands = [_difference(builder, operator, index, dtype) for index in (0, 1)]
    (result,) = builder.emit("Conv", [*operands], operator.attributes)
    return builder.cast(result, "int32")
