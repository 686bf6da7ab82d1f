"""Lowerings that only change the shape, and reshaping inside groups."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import te

from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.sizes import tensor_extents
from compiler.tensors.row_major import reshaped_index, unit_free


def reshape(tensor: te.Tensor, shape: Sequence[int], name: str = "reshape") -> te.Tensor:
    """The same elements in row-major order under another shape."""
    old = tensor_extents(tensor)
    if prod(shape) == 0:
        return te.compute(tuple(shape), lambda *i: tensor(*[0 for _ in old]), name=name)

    def body(*indices: Any) -> Any:
        return tensor(*reshaped_index(unit_free(indices, shape), shape, old))

    return te.compute(tuple(shape), body, name=name)


@lowering("Reshape", "Squeeze", "Unsqueeze", "Flatten")
def lower_view(context: Context) -> te.Tensor:
    """The first input under the result's shape."""
    return reshape(context.tensor(0), context.output.shape, context.type)
