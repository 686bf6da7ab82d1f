"""Contractions of bytes in wider types, for targets without kernels for them.

Floats hold two bytes multiplied exactly; sums in float32 are exact up to 2^24. Longer sums of a
MatMul are rounded where all that follows is their conversion to floats, to be scaled.
"""

from collections.abc import Set
from math import prod

import numpy as np

from compiler.frontend.builder import Builder
from compiler.frontend.evaluate import element_type
from compiler.frontend.graph import Graph, Operator, Value
from compiler.frontend.quantised.tensor_cores import is_tiled, separated
from compiler.frontend.quantised.walk import Walk
from compiler.net.operators import INTEGER_CONTRACTIONS

LARGEST_EXACT_FLOAT = 1 << 24
"""The integers up to which float32 has all."""


def fit_kernels(graph: Graph, on_tensor_cores: bool) -> bool:
    """Rewrite contractions of integers of a byte that no kernel computes as they are.

    Tensor cores compute those that they take without zero points. All others become equal ones of
    int32 or of floats that are wide enough; returns whether there were any.
    """
    if all(operator.op_type not in INTEGER_CONTRACTIONS for operator in graph.operators):
        return False
    walk = _Widening(_visible_integers(graph), on_tensor_cores)
    walk.rewrite(graph)
    return walk.widened


class _Widening(Walk):
    """Widens contractions of integers; sums that are `visible` stay exact."""

    def __init__(self, visible: Set[Value], on_tensor_cores: bool):
        super().__init__()
        self.visible = visible
        self.on_tensor_cores = on_tensor_cores
        self.widened = False

    def replacement(self, operator: Operator) -> Value | None:
        """The sums of wider operands, or those of tensor cores less what a zero point adds."""
        if operator.op_type not in INTEGER_CONTRACTIONS:
            return None
        if self.on_tensor_cores and is_tiled(operator):
            return separated(self.builder, operator)
        self.widened = True
        if operator.op_type == "ConvInteger":
            return _convolution(self.builder, operator)
        return _matmul(self.builder, operator, exactly=operator.output in self.visible)


def _difference(builder: Builder, operator: Operator, index: int, dtype: str) -> Value:
    """An operand less its zero point, in a type."""
    to = element_type(dtype)
    value = builder.one("Cast", operator.operand(index), to=to)
    zero = operator.inputs[index + 2] if index + 2 < len(operator.inputs) else None
    return value if zero is None else builder.one("Sub", value, builder.one("Cast", zero, to=to))


def _visible_integers(graph: Graph) -> set[Value]:
    """The results of the graph, and what is read by any operator but a Cast to float32."""
    visible = {value for _, value in graph.outputs}
    for operator in graph.operators:
        if operator.op_type != "Cast" or operator.output.dtype != "float32":
            visible.update(value for value in operator.inputs if value is not None)
    return visible


def _matmul(builder: Builder, operator: Operator, exactly: bool) -> Value:
    dtype = "int32" if exactly and _largest_sum(operator) > LARGEST_EXACT_FLOAT else "float32"
    operands = [_difference(builder, operator, index, dtype) for index in (0, 1)]
    sums = builder.one("MatMul", *operands)
    return sums if dtype == "int32" else builder.one("Cast", sums, to=element_type("int32"))


def _largest_sum(operator: Operator) -> int:
    """A bound of the sums of a MatMulInteger: that of its weights where they are constant."""
    weights, zero = operator.operand(1), [*operator.inputs, None, None][3]
    if weights.array is None or (zero is not None and zero.array is None):
        return weights.shape[-2] * 255 * 255
    sizes = np.abs(weights.array.astype("int64") - (0 if zero is None else zero.array))
    return 255 * int(sizes.sum(-2).max(initial=0))


def _convolution(builder: Builder, operator: Operator) -> Value:
    bound = prod(operator.operand(1).shape[1:]) * 255 * 255
    dtype = "float32" if bound <= LARGEST_EXACT_FLOAT else "float64"
    operands = [_difference(builder, operator, index, dtype) for index in (0, 1)]
    (result,) = builder.emit("Conv", [*operands], operator.attributes)
    return builder.one("Cast", result, to=element_type("int32"))
