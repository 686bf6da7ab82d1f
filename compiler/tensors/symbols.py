"""Symbols: sizes that a run decides, with their bounds; and arithmetic on such bounds."""

from dataclasses import dataclass
from math import inf

Range = tuple[float, float]
"""The least and the largest value, perhaps infinite."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that a run decides: its name, its bounds, and an example for costs and tiles.

    `scope` differs between compilations, so that nothing which is cached for one compilation, with
    the conditions that it assumed, is used in another.

    A `measured` one is counted by a kernel of the run, from data, and may be 0 or 1 in any run. It
    has an upper bound.
    """

    name: str
    low: int = 0
    high: int | None = None
    hint: int = 64
    scope: int = 0
    measured: bool = False

    def __post_init__(self) -> None:
        upper = inf if self.high is None else self.high
        if not 0 <= self.low <= self.hint <= upper:
            raise ValueError(
                f"the symbol {self.name!r} is from {self.low} to {upper}, its hint is {self.hint}"
            )

    def __str__(self) -> str:
        return self.name


def floor(numerator: float, denominator: float) -> float:
    """A quotient rounded down; of a number by infinity as by any large number."""
    if abs(numerator) == inf:
        return numerator
    if denominator == inf:
        return 0 if numerator >= 0 else -1
    return numerator // denominator


def times(first: Range, second: Range) -> Range:
    """The range of all a * b; 0 times infinity is 0, as infinity stands for large numbers."""
    ends = [a * b if a and b else 0 for a in first for b in second]
    return min(ends), max(ends)
