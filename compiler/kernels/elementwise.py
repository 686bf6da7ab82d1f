"""Lowerings of elementwise operators: one output element from the same element of each input."""

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from compiler.kernels.lowering import Context, lowering


def elementwise(context: Context, function: Callable[..., Any]) -> te.Tensor:
    """Apply a function of scalars to all inputs, broadcast together."""
    positions = [i for i in range(len(context.inputs)) if context.has(i)]

    def body(*indices: Any) -> Any:
        return function(*[context.element(i, indices) for i in positions])

    return te.compute(context.output.shape, body, name=context.operator.type)


@lowering("Add")
def add(context: Context) -> te.Tensor:
    return elementwise(context, lambda a, b: a + b)


@lowering("Relu")
def relu(context: Context) -> te.Tensor:
    zero = tirx.const(0, context.output.dtype)
    return elementwise(context, lambda x: tirx.Select(x < zero, zero, x))
