"""Tensors as strided windows of a buffer, and what reshapes, transposes and slices make of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Self


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous tensor."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True, slots=True)
class Strided:
    """Element `i` lies `offset + sum(i * strides)` elements into a buffer; no extent is 0."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def contiguous(cls, shape: Sequence[int]) -> Self:
        """A whole buffer in row-major order."""
        return cls(tuple(shape), row_major(shape))

    def transposed(self, permutation: Sequence[int]) -> "Strided":
        """The axes in another order."""
        shape = tuple(self.shape[axis] for axis in permutation)
        return Strided(shape, tuple(self.strides[axis] for axis in permutation), self.offset)

    def sliced(self, axis: int, start: int, extent: int, step: int = 1) -> "Strided":
        """A part of one axis."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis]
        shape[axis], strides[axis] = extent, strides[axis] * step
        return Strided(tuple(shape), tuple(strides), offset)

    def broadcast(self, shape: Sequence[int]) -> "Strided":
        """Repeated along new leading axes and axes of one element, which must fit."""
        added = len(shape) - len(self.shape)
        own = zip(self.shape, self.strides, strict=True)
        strides = [0] * added + [0 if extent == 1 else stride for extent, stride in own]
        return Strided(tuple(shape), tuple(strides), self.offset)

    def reshaped(self, shape: Sequence[int]) -> "Strided | None":
        """Under another shape of as many elements; None where that would move elements."""
        runs = self._runs()
        strides: list[int] = []
        for extent in reversed(shape):
            if extent == 1:
                strides.append(0)
                continue
            length, stride = runs.pop()
            if length % extent:
                return None
            strides.append(stride)
            if length > extent:
                runs.append((length // extent, stride * extent))
        return Strided(tuple(shape), tuple(reversed(strides)), self.offset)

    def _runs(self) -> list[tuple[int, int]]:
        """Extents and strides with axes merged that count on as one."""
        runs: list[tuple[int, int]] = []
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if extent == 1:
                continue
            if runs and runs[-1][1] == extent * stride:
                runs[-1] = (runs[-1][0] * extent, stride)
            else:
                runs.append((extent, stride))
        return runs
