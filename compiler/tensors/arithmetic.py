"""Functions of extents that are made of their arithmetic."""

from collections.abc import Iterable
from functools import reduce
from operator import mul
from typing import Any

from compiler.tensors.extents import Extent, Maximum, atom_extent, bounds, single_atom


def maximum(first: Extent, *others: Extent) -> Extent:
    """The largest of some extents. The built-in `max` decides between expressions instead."""
    extents: list[Extent] = []
    for extent in (first, *others):
        atom = single_atom(extent)
        extents += atom.extents if isinstance(atom, Maximum) else (extent,)
    largest: list[Extent] = []
    for i, extent in enumerate(extents):
        # Of two that are equal the first stays.
        rivals = (*largest, *extents[i + 1 :])
        if not any(bounds(extent - rival)[1] <= 0 for rival in rivals):
            largest.append(extent)
    return largest[0] if len(largest) == 1 else atom_extent(Maximum(largest))


def minimum(first: Extent, *others: Extent) -> Extent:
    """The least of some extents. The built-in `min` decides between expressions instead."""
    return -maximum(*(-extent for extent in (first, *others)))


def elements(shape: Iterable[Extent]) -> Extent:
    """The number of elements of a tensor of this shape."""
    return reduce(mul, shape, 1)


def truncated(extent: Any, divisor: Any) -> Any:
    """A quotient rounded towards zero."""
    if divisor < 0:
        extent, divisor = -extent, -divisor
    return extent // divisor if extent >= 0 else -(-extent // divisor)


def ceil_div(extent: Extent, divisor: Extent) -> Extent:
    """The number of parts of a size that cover an extent."""
    return (extent + divisor - 1) // divisor
