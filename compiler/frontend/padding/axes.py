"""The axes of padded tensors, divided into factors with elements first and padding after them.

An axis `batch * length` of 8 * 64 elements, of which a run has 5 * 37, has two factors: element i
is padding if `i // 64 >= 5` or `i % 64 >= 37`. Reshapes merge and split factors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Factor:
    """A size of the bucket, that of its example, and the extent of a run's elements.

    `name` is the dimension of the model that it comes from, as far as that is known.
    """

    size: int
    example: int
    extent: int
    name: str = field(default="", compare=False)

    @property
    def open(self) -> bool:
        """Whether there is padding for some runs in the bucket."""
        return self.size != self.example or self.padded

    @property
    def padded(self) -> bool:
        """Whether there is padding."""
        return self.size != self.extent

    def times(self, size: int) -> "Factor":
        """The factor, with `size` elements in place of each."""
        return Factor(self.size * size, self.example * size, self.extent * size, self.name)

    def split(self, outer: int) -> "tuple[Factor, Factor] | None":
        """Two factors, of which the first has the size `outer`; None if padding does not divide."""
        if not outer or not self.size or self.size % outer:
            return None
        inner = self.size // outer
        if self.example % inner or self.extent % inner:
            return None
        first = Factor(outer, self.example // inner, self.extent // inner, self.name)
        return first, Factor(inner, inner, inner)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a tensor as its factors, of which all but the first are open."""

    factors: tuple[Factor, ...]

    @classmethod
    def of(cls, factors: Sequence[Factor]) -> "Axis":
        """The axis of some factors; those without padding are merged into those before them."""
        merged: list[Factor] = []
        for factor in factors:
            if merged and not factor.open:
                merged[-1] = merged[-1].times(factor.size)
            elif factor.open or factor.size != 1:
                merged.append(factor)
        return cls(tuple(merged))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The elements in the bucket, in its example and in the run."""
        factors = self.factors
        return (
            prod(factor.size for factor in factors),
            prod(factor.example for factor in factors),
            prod(factor.extent for factor in factors),
        )

    @property
    def open(self) -> bool:
        """Whether there is padding for some runs in the bucket."""
        return any(factor.open for factor in self.factors)

    @property
    def single(self) -> bool:
        """Whether all padding comes after all elements."""
        return len(self.factors) <= 1

    @property
    def strided(self) -> Iterator[tuple[int, Factor]]:
        """The factors, each with the elements of the axis from one of its indices to the next."""
        stride = prod(factor.size for factor in self.factors)
        for factor in self.factors:
            stride //= factor.size
            yield stride, factor

    @property
    def names(self) -> str:
        """Its padded dimensions, for messages."""
        names = [factor.name or str(factor.size) for factor in self.factors if factor.open]
        return " * ".join(names)


Axes = tuple[Axis, ...]
"""The axes of a tensor."""

ONE = Axis(())
"""An axis of one element."""


def boxed_axes(large: Shape, example: Shape, small: Shape, names: Sequence[str] = ()) -> Axes:
    """Axes on which all elements come before all padding."""
    named = names or [""] * len(large)
    sizes = zip(large, example, small, named, strict=True)
    return tuple(Axis.of([Factor(*parts)]) for parts in sizes)


def regrouped(axes: Axes, sizes: Sequence[int]) -> Axes | None:
    """The axes of a reshape to some sizes in the bucket; None if padding mixes with elements."""
    rest = [*reversed(Axis.of([f for axis in axes for f in axis.factors]).factors)]
    found: list[Axis] = []
    for size in sizes:
        taken = _taken(rest, size)
        if taken is None:
            return None
        found.append(Axis.of(taken))
    return None if rest else tuple(found)


def _taken(rest: list[Factor], size: int) -> list[Factor] | None:
    """The last factors of a list, which have a size together."""
    taken: list[Factor] = []
    while size != 1:
        if not rest:
            return None
        factor = rest.pop()
        if factor.size and size % factor.size == 0:
            taken.append(factor)
            size //= factor.size
            continue
        parts = factor.split(size)
        if parts is None:
            return None
        taken.append(parts[0])
        rest.append(parts[1])
        size = 1
    return taken


@dataclass(frozen=True, slots=True)
class Crop:
    """The elements of a padded tensor: its shape by factors, their box, and the shape they have."""

    factors: Shape
    box: tuple[slice, ...]
    shape: Shape

    @classmethod
    def of(cls, axes: Axes) -> "Crop":
        """The elements on some axes."""
        factors = [factor for axis in axes for factor in axis.factors or (Factor(1, 1, 1),)]
        return cls(
            tuple(factor.size for factor in factors),
            tuple(slice(0, factor.extent) for factor in factors),
            tuple(axis.sizes[2] for axis in axes),
        )

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """The elements of a tensor of the bucket."""
        if array.shape == self.factors:
            return array[self.box]
        return array.reshape(self.factors)[self.box].reshape(self.shape)
