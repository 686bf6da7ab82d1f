"""Positions of elements in row-major order, of indices that are numbers or expressions."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from compiler.tensors.extents import at_hints


def squeezed_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without its ones; tensors of one squeezed shape hold elements in the same order."""
    return tuple(size for size in shape if size != 1)


def flatten_index(indices: Sequence[Any], shape: Sequence[int]) -> Any:
    """The row-major position of an index."""
    return reduce(
        lambda total, item: total * item[1] + item[0], zip(indices, shape, strict=False), 0
    )


def unflatten_index(position: Any, shape: Sequence[int], inside: bool = False) -> list[Any]:
    """The index at a row-major position; `inside` leaves out that the outermost one ends.

    Axes of one element around it do not count.
    """
    indices: list[Any] = []
    outermost = next((axis for axis, extent in enumerate(shape) if extent != 1), None)
    for axis, extent in reversed([*enumerate(shape)]):
        ends = extent != 1 and not (inside and axis == outermost)
        indices.append(position % extent if ends else 0 if extent == 1 else position)
        position = position // extent
    return indices[::-1]


Segment = tuple[tuple[int, int], tuple[int, int]]


def matching_segments(old: Sequence[int], new: Sequence[int]) -> Iterator[Segment]:
    """Ranges of axes of two shapes that hold the same elements, as short as they can be.

    They are for all sizes, which give ranges equal counts; the example sizes say where to go on.
    """
    i = j = 0
    while i < len(old) or j < len(new):
        start = (i, j)
        old_count = new_count = 1
        while True:
            if old_count == new_count and (i, j) != start:
                break
            behind = at_hints(old_count) <= at_hints(new_count)
            if (behind and i < len(old)) or j >= len(new):
                old_count = old_count * old[i]
                i = i + 1
            else:
                new_count = new_count * new[j]
                j = j + 1
        yield (start[0], i), (start[1], j)


def unit_free(indices: Sequence[Any], shape: Sequence[int]) -> list[Any]:
    """An index with 0 wherever the axis has one element."""
    return [0 if n == 1 else i for i, n in zip(indices, shape, strict=True)]


def reshaped_index(indices: Sequence[Any], new: Sequence[int], old: Sequence[int]) -> list[Any]:
    """The index in a tensor of shape `old` of the element at an index of shape `new`."""
    result: list[Any] = []
    for (a, b), (c, d) in matching_segments(old, new):
        result += unflatten_index(flatten_index(indices[c:d], new[c:d]), old[a:b])
    return result
