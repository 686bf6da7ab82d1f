"""Tensors of a proof: extents, and an element for every index."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import z3

from tests.rewrite.rules.divisions import (
    Formula,
    Index,
    divided,
    quotient,
    remainder,
    row_major,
)
from tests.rewrite.rules.reasoning import Reasoner, Unproved
from tests.rewrite.rules.sums import Sum, read

Indices = tuple[Index, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Symbolic:
    """A tensor of any size."""

    shape: tuple[Index, ...]
    at: Callable[[Indices], Sum]


@dataclass(frozen=True, eq=False, slots=True)
class Use:
    """One use of an operator in a proof; `require` takes what its inputs must fulfil."""

    kind: str
    inputs: Sequence[Symbolic]
    attributes: Mapping[str, Any]
    reasoner: Reasoner
    require: Callable[[Formula], None]
    is_source: bool

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]

    def require_same(self, left: Sequence[Index], right: Sequence[Index]) -> None:
        """Require equal extents."""
        self.require(z3.BoolVal(len(left) == len(right)))
        for a, b in zip(left, right, strict=True):
            if not self.reasoner.same(a, b):
                self.require(a == b)

    def divide_exactly(self, number: Index, divisor: Index) -> Index:
        """A quotient without remainder, which is required.

        A number that is known to be the quotient stands for it.
        """
        self.reasoner.definitions.multiples.append(divisor)
        if isinstance(number, int) and isinstance(divisor, int):
            self.require(z3.BoolVal(number % divisor == 0))
            return number // divisor
        if self.is_source:
            return self.reasoner.divide_exactly(number, divisor)
        found = self.reasoner.known_quotient(number, divisor)
        if found is None:
            raise Unproved(f"{divisor} does not divide {number}")
        return found


def variable(name: str, shape: Sequence[Index]) -> Symbolic:
    """Any tensor of a shape."""
    return Symbolic(tuple(shape), lambda indices: read(name, *indices))


def inside(index: Index, extent: Index) -> list[Formula]:
    """The conditions that an index is one of an axis."""
    return [index >= 0, index < extent]


def holding(reasoner: Reasoner, formulas: Sequence[Any]) -> list[Formula]:
    """The formulas that do not follow from what is known."""
    symbolic = [z3.BoolVal(f) if isinstance(f, bool) else f for f in formulas]
    return [f for f in symbolic if not reasoner.follows(f)]


def broadcast(use: Use, shapes: Sequence[Sequence[Index]]) -> tuple[Index, ...]:
    """The shape to which all broadcast, which is required."""
    rank = max(map(len, shapes))
    result: list[Index] = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, rank - len(shape)):
            result[axis] = _wider(use, result[axis], extent)
    return tuple(result)


def _wider(use: Use, left: Index, right: Index) -> Index:
    same = use.reasoner.same
    if same(left, right) or same(right, 1):
        return left
    if same(left, 1):
        return right
    use.require(z3.Or(left == right, left == 1, right == 1))
    return right if same(left, 1) else left if same(left, right) else z3.If(left == 1, right, left)


def aligned(use: Use, shape: Sequence[Index], result: Sequence[Index], indices: Indices) -> Indices:
    """The index into a tensor of the element that a broadcast one repeats."""
    skipped = len(result) - len(shape)
    triples = zip(shape, result[skipped:], indices[skipped:], strict=True)
    return tuple(_repeated(use, *triple) for triple in triples)


def _repeated(use: Use, extent: Index, result: Index, index: Index) -> Index:
    same = use.reasoner.same
    if same(extent, result):
        return index
    return 0 if same(extent, 1) else z3.If(extent == 1, 0, index)


Blocks = list[tuple[int, int]]


def blocks(reasoner: Reasoner, before: Sequence[Index], after: Sequence[Index]) -> Blocks:
    """How many axes of two shapes have as many elements together, again and again."""
    found: Blocks = []
    while before or after:
        block = _block(reasoner, before, after)
        found.append(block)
        before, after = before[block[0] :], after[block[1] :]
    return found


def _block(reasoner: Reasoner, before: Sequence[Index], after: Sequence[Index]) -> tuple[int, int]:
    sizes = [(i, j) for i in range(len(before) + 1) for j in range(len(after) + 1) if i + j]
    for i, j in sorted(sizes, key=lambda size: (abs(size[0] - 1) + abs(size[1] - 1), size)):
        if reasoner.same(prod(before[:i]), prod(after[:j])):
            return i, j
    return len(before), len(after)


def numbered(indices: Indices, extents: Sequence[Index]) -> Index:
    """The number of an element in row-major order."""
    total: Index = 0
    for place, (index, extent) in enumerate(zip(indices, extents, strict=True)):
        total = index if place == 0 else row_major(total, index, extent)
    return total


def unnumbered(reasoner: Reasoner, number: Index, extents: Sequence[Index]) -> Indices:
    """The index of an element from its number in row-major order."""
    indices: list[Index] = []
    for extent in reversed(extents[1:]):
        one = reasoner.same(extent, 1)
        indices.append(0 if one else remainder(number, extent))
        number = number if one else quotient(number, extent)
    if extents:
        indices.append(0 if reasoner.same(extents[0], 1) else number)
    return tuple(reversed(indices))


def windows(use: Use, kernel: Sequence[Index]) -> tuple[Index, ...]:
    """The number of windows along each axis, whose attributes are checked."""
    extents = use.inputs[0].shape[2:]
    spatial = len(extents)
    use.require(z3.BoolVal(len(use["pads"]) == 2 * len(kernel) == 2 * spatial))
    counts: list[Index] = []
    for axis, extent in enumerate(extents):
        stride, dilation = use["strides"][axis], use["dilations"][axis]
        pads = use["pads"][axis], use["pads"][spatial + axis]
        for value, least in (
            (stride, 1),
            (dilation, 1),
            (kernel[axis], 1),
            *((p, 0) for p in pads),
        ):
            use.require(as_formula(value >= least))
        room = extent + pads[0] + pads[1] - ((kernel[axis] - 1) * dilation + 1)
        use.require(as_formula(room >= 0))
        counts.append(divided(room, 1 if use.reasoner.same(stride, 1) else stride) + 1)
    return tuple(counts)


def as_formula(value: Any) -> Formula:
    """A formula, also of a comparison of numbers."""
    return z3.BoolVal(value) if isinstance(value, bool) else value


def window_positions(use: Use, indices: Indices, taps: Indices) -> tuple[Indices, list[Formula]]:
    """The positions in the image of a window's taps, and the conditions that they are inside.

    A window of an image without pads never leaves it.
    """
    extents, pads = use.inputs[0].shape[2:], use["pads"]
    spatial = len(extents)
    positions: list[Index] = []
    conditions: list[Formula] = []
    for axis, extent in enumerate(extents):
        start = indices[axis] * use["strides"][axis] - pads[axis]
        positions.append(start + taps[axis] * use["dilations"][axis])
        if not all(use.reasoner.same(p, 0) for p in (pads[axis], pads[spatial + axis])):
            conditions += inside(positions[-1], extent)
    return tuple(positions), holding(use.reasoner, conditions)
