"""Lowerings that only change the shape, and reshaping inside groups."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from tvm import te

from compiler.kernels.ops.lowering import Context, flatten_index, lowering, unflatten_index

Segment = tuple[tuple[int, int], tuple[int, int]]


def matching_segments(old: Sequence[int], new: Sequence[int]) -> Iterator[Segment]:
    """Ranges of axes of two shapes that hold the same elements, as short as they can be."""
    i = j = 0
    while i < len(old) or j < len(new):
        start = (i, j)
        left = right = 1
        while True:
            if left == right and (i, j) != start:
                break
            if (left <= right and i < len(old)) or j >= len(new):
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        yield (start[0], i), (start[1], j)


def reshaped_index(indices: Sequence[Any], new: Sequence[int], old: Sequence[int]) -> list[Any]:
    """The index in a tensor of shape `old` of the element at an index of shape `new`."""
    result: list[Any] = []
    for (a, b), (c, d) in matching_segments(old, new):
        result += unflatten_index(flatten_index(indices[c:d], new[c:d]), old[a:b])
    return result


def unit_free(indices: Sequence[Any], shape: Sequence[int]) -> list[Any]:
    """An index with 0 wherever the axis has one element."""
    return [0 if n == 1 else i for i, n in zip(indices, shape, strict=True)]


def reshape(tensor: te.Tensor, shape: Sequence[int], name: str = "reshape") -> te.Tensor:
    """The same elements in row-major order under another shape."""
    old = [int(n) for n in tensor.shape]
    if prod(shape) == 0:
        return te.compute(tuple(shape), lambda *i: tensor(*[0 for _ in old]), name=name)

    def body(*indices: Any) -> Any:
        return tensor(*reshaped_index(unit_free(indices, shape), shape, old))

    return te.compute(tuple(shape), body, name=name)


@lowering("Reshape", "Squeeze", "Unsqueeze", "Flatten")
def lower_view(context: Context) -> te.Tensor:
    """The first input under the result's shape."""
    return reshape(context.tensor(0), context.output.shape, context.operator.type)
