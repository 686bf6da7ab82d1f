"""What is known of an operator besides its types and what it computes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from compiler.net.attributes import Shape
from compiler.net.node import TypedNode

NumberRange = tuple[float, float]
"""The least and the greatest number that an element may be; NaN is in every interval."""

EVERYTHING: NumberRange = (-inf, inf)
"""The interval of any number."""


def always_within(low: float, high: float) -> Callable[[Sequence[NumberRange]], NumberRange]:
    """The interval of results that are always in one, whatever the operands are."""
    return lambda operands: (low, high)


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What passes ask of an operator: its cost, its algebra, and how results hold operands.

    `flops` are the operations for each element of the result, or for each that a reduction reads.
    `work` counts the operations of one node where they are not so many an element; it has the
    shapes of the results.

    It `repeats` if a result often holds one element of an operand many times. `exact` results are
    not rounded: an operand's element, its opposite, or a constant; what moves elements is exact
    anyway. `keeps_codes` says whether integers in place of the numbers that they stand for give
    those of the result; None if that follows from the maps.

    `interval` has the bounds of the results by those of all operands. `wide` results may overflow
    16 bits however small the operands are, or are statistics that rounding spoils; `small` results
    do not grow with the operands (with an `interval` that is finite, this follows). It `steps` if
    the last bit of an operand may change a result by a whole step.

    `reduces` has the axes of operand 0 that are reduced completely; it is None for windows.
    `through_floats` reductions compute integers as floating-point numbers. The reduction of a
    single element is that element, or what the operator `of_one` computes of it for all operands.

    `neutral` is, for each operand of two, the number that leaves the other as it is, with the sign
    of the zero that keeps -0; None if there is none.

    `on_extents` computes one element from those of the operands where they are extents, or
    truths of extents: exact integers, which do not wrap. A reduction folds its operand by it.

    An opaque operator is `sized` if its kernel for CPUs takes sizes that a run decides.

    What is `derived` makes weights of weights: a result of these alone is one, computed once.

    An operator `converts` if its results are the elements of its operand in another type. It
    `clips` if they are those of operand 0 but for limits, which the others are. It `permutes` if
    the axes of the result are those of its operand in the order of the attribute `perm`, and
    `concatenates` if its operands follow each other along the attribute `axis`.
    """

    flops: int | Callable[[TypedNode], int] = 1
    work: Callable[[TypedNode, Sequence[Shape]], int] | None = None
    repeats: bool = False
    exact: bool = False
    keeps_codes: bool | None = None
    interval: Callable[[Sequence[NumberRange]], NumberRange] | None = None
    wide: bool = False
    small: bool = False
    steps: bool = False
    reduces: Callable[[TypedNode], Sequence[int]] | None = None
    through_floats: bool = False
    of_one: str = ""
    neutral: tuple[float | None, float | None] = (None, None)
    commutative: bool = False
    idempotent: bool = False
    involution: bool = False
    on_extents: Callable[..., Any] | None = None
    sized: bool = False
    derived: bool = False
    converts: bool = False
    clips: bool = False
    permutes: bool = False
    concatenates: bool = False

    @property
    def is_small(self) -> bool:
        """Whether results stay small however large the operands are."""
        if self.interval is None:
            return self.small
        return all(map(isfinite, self.interval([EVERYTHING, EVERYTHING])))


REPEATED = Facts(repeats=True)
"""What moves elements, each perhaps to many results."""

DERIVED = Facts(derived=True)
"""What moves elements of weights, too."""
