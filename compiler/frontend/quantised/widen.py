"""Contractions of bytes in wider types, for targets without kernels for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from compiler.frontend.builder import Builder
from compiler.frontend.evaluate import element_type
from compiler.frontend.expansion import Expansion
from compiler.frontend.graph import Graph, Operator, Value

LARGEST_EXACT_FLOAT = 1 << 24
"""The integers up to which float32 has all."""


def widen_bytes(graph: Graph, keeps: Callable[[Operator], bool] = lambda operator: False) -> None:
    """Replace contractions of bytes by equal ones of int32 or of floats that are wide enough."""
    if all(operator.op_type not in _WIDER or keeps(operator) for operator in graph.operators):
        return
    builder = Builder(Graph(graph.inputs), Expansion())
    instead: dict[Value, Value] = {}
    for old in graph.operators:
        inputs = [None if value is None else instead.get(value, value) for value in old.inputs]
        operator, builder.node = replace(old, inputs=inputs), old.node
        if operator.op_type in _WIDER and not keeps(operator):
            instead[old.output] = _WIDER[operator.op_type](builder, operator)
        else:
            builder.graph.operators.append(operator)
    graph.operators = builder.graph.operators
    graph.outputs = [(name, instead.get(value, value)) for name, value in graph.outputs]


def _difference(builder: Builder, operator: Operator, index: int, dtype: str) -> Value:
    """An operand less its zero point, in a type."""
    to = element_type(dtype)
    value = builder.one("Cast", operator.operand(index), to=to)
    zero = operator.inputs[index + 2] if index + 2 < len(operator.inputs) else None
    return value if zero is None else builder.one("Sub", value, builder.one("Cast", zero, to=to))


def _matmul(builder: Builder, operator: Operator) -> Value:
    operands = [_difference(builder, operator, index, "int32") for index in (0, 1)]
    return builder.one("MatMul", *operands)


def _convolution(builder: Builder, operator: Operator) -> Value:
    bound = prod(operator.operand(1).shape[1:]) * 255 * 255
    dtype = "float32" if bound <= LARGEST_EXACT_FLOAT else "float64"
    operands = [_difference(builder, operator, index, dtype) for index in (0, 1)]
    (result,) = builder.emit("Conv", [*operands], operator.attributes)
    return builder.one("Cast", result, to=element_type("int32"))


_WIDER: Mapping[str, Callable[[Builder, Operator], Value]] = {
    "ConvInteger": _convolution,
    "MatMulInteger": _matmul,
}
