"""Extents whose equality assumes nothing, as optimisations compare them.

An optimisation asks whether two extents are equal for all sizes, and does without if they are not:
that needs no condition. Comparisons with 0 and 1, which distinguish empty tensors and axes of one
element, and by `<`, are decided as those of any other extents.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from compiler.tensors.extents import Expression, Extent


class ExactExpression(Expression):
    """An expression that is equal to itself, and to no number but 0 and 1 by assumption."""

    __slots__ = ()

    __hash__ = Expression.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Expression):
            return self.terms == other.terms
        return super().__eq__(other) if other in (0, 1) else False

    def __add__(self, other: Extent) -> Extent:
        return exactly(super().__add__(other))

    def __radd__(self, other: Extent) -> Extent:
        return exactly(super().__radd__(other))

    def __sub__(self, other: Extent) -> Extent:
        return exactly(super().__sub__(other))

    def __rsub__(self, other: int) -> Extent:
        return exactly(super().__rsub__(other))

    def __neg__(self) -> Extent:
        return exactly(super().__neg__())

    def __mul__(self, other: Any) -> Extent:
        return exactly(super().__mul__(other))

    def __rmul__(self, other: Any) -> Extent:
        return exactly(super().__rmul__(other))

    def __floordiv__(self, other: Extent) -> Extent:
        return exactly(super().__floordiv__(other))

    def __rfloordiv__(self, other: int) -> Extent:
        return exactly(super().__rfloordiv__(other))

    def __mod__(self, other: Extent) -> Extent:
        return exactly(super().__mod__(other))

    def __rmod__(self, other: int) -> Extent:
        return exactly(super().__rmod__(other))


def exactly(extent: Extent) -> Extent:
    """An extent whose equality assumes nothing."""
    return ExactExpression(extent.terms) if type(extent) is Expression else extent


def plain(extent: Extent) -> Extent:
    """An extent that is compared by assumption again."""
    return Expression(extent.terms) if type(extent) is ExactExpression else extent


def plain_shape(shape: Iterable[Extent]) -> tuple[int, ...]:
    """A shape that is compared by assumption again."""
    return tuple([cast(int, plain(extent)) for extent in shape])


def same_extents(first: Sequence[Extent], second: Sequence[Extent]) -> bool:
    """Whether two shapes are equal for all sizes. Unlike `==` this assumes nothing."""
    return len(first) == len(second) and all(
        not isinstance(difference := a - b, Expression) and difference == 0
        for a, b in zip(first, second, strict=True)
    )


def divides(divisor: Extent, extent: Extent) -> bool:
    """Whether an extent is a multiple of another for all sizes. This assumes nothing."""
    remainder = extent % divisor
    return not isinstance(remainder, Expression) and remainder == 0
