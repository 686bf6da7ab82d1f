"""Rows of a row-major tensor along any of its axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class AxisRows:
    """`outer` x `inner` rows along an axis: `length` elements that are `inner` elements apart."""

    outer: int
    length: int
    inner: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.outer * self.inner


def rows_along(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """The outer, length and inner extents of a shape's rows along an axis."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
