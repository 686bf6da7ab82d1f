"""Tensors as strided windows of a buffer, and reshapes, transposes and slices of windows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Self

from compiler.tensors.exact import divides, same_extents

AxisRun = tuple[int, int]
"""(extent, stride): an extent above 1, and its stride in elements of the buffer."""


@dataclass(frozen=True, slots=True)
class StridedWindow:
    """A strided window of a buffer; each axis is a sequence of runs, outermost first.

    An index of an axis is a mixed-radix number with a digit for each run; an element's position in
    the buffer is `offset` plus the sum of digit times stride. No extent is 0. An axis of one
    element has no runs; an axis that a reshape merged from others may have several.
    """

    axes: tuple[tuple[AxisRun, ...], ...]
    offset: int = 0

    @classmethod
    def contiguous(cls, shape: Sequence[int]) -> Self:
        """A whole buffer in row-major order."""
        steps = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return cls(tuple(_merged([run]) for run in zip(shape, steps, strict=True)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes."""
        return tuple(map(_extent, self.axes))

    def stride(self, axis: int) -> int | None:
        """Elements from one index of an axis to the next; None for an axis of several runs."""
        runs = self.axes[axis]
        return None if len(runs) > 1 else sum(stride for _, stride in runs)

    def transposed(self, permutation: Sequence[int]) -> "StridedWindow":
        """The axes in another order."""
        return StridedWindow(tuple(self.axes[axis] for axis in permutation), self.offset)

    def sliced(self, axis: int, start: int, extent: int, step: int = 1) -> "StridedWindow | None":
        """A slice of one axis; None if it is not a rectangle of the axis's runs."""
        selection = _selected(self.axes[axis], start, extent, step)
        if selection is None:
            return None
        offset, runs = selection
        axes = (*self.axes[:axis], runs, *self.axes[axis + 1 :])
        return StridedWindow(axes, self.offset + offset)

    def broadcast(self, shape: Sequence[int]) -> "StridedWindow":
        """The window broadcast to a shape, as numpy's `broadcast_to`; the shape must fit."""
        axes = [()] * (len(shape) - len(self.axes)) + list(self.axes)
        repeated = (runs or _merged([(n, 0)]) for runs, n in zip(axes, shape, strict=True))
        return StridedWindow(tuple(repeated), self.offset)

    def reshaped(self, shape: Sequence[int]) -> "StridedWindow | None":
        """The window in another shape of as many elements; None if that divides a run unevenly."""
        runs = list(_merged(run for axis in self.axes for run in axis))
        axes: list[tuple[AxisRun, ...]] = []
        for extent in reversed(shape):
            axis_runs = _take(runs, extent)
            if axis_runs is None:
                return None
            axes.append(axis_runs)
        return StridedWindow(tuple(reversed(axes)), self.offset)


def _extent(runs: Sequence[AxisRun]) -> int:
    return prod(extent for extent, _ in runs)


def _merged(runs: Iterable[AxisRun]) -> tuple[AxisRun, ...]:
    """The same elements in as few runs as possible."""
    merged: list[AxisRun] = []
    for extent, stride in runs:
        if merged and same_extents([merged[-1][1]], [extent * stride]):
            merged[-1] = (merged[-1][0] * extent, stride)
        elif extent not in (0, 1):
            merged.append((extent, stride))
    return tuple(merged)


def _take(runs: list[AxisRun], extent: int) -> tuple[AxisRun, ...] | None:
    """Remove the innermost runs of `extent` elements; returns them, or None if they do not fit."""
    axis_runs: list[AxisRun] = []
    while extent not in (0, 1):
        length, stride = runs.pop()
        # of two extents the smaller divides the other, whatever the symbols stand for, or none does
        inner = extent if divides(extent, length) else length
        if not divides(inner, extent):
            return None
        axis_runs.append((inner, stride))
        if not same_extents([inner], [length]):
            runs.append((length // inner, stride * inner))
        extent //= inner
    return tuple(reversed(axis_runs))


def _selected(
    runs: tuple[AxisRun, ...], start: int, count: int, step: int
) -> tuple[int, tuple[AxisRun, ...]] | None:
    """The offset and the runs of some indices of an axis; None if they are not such runs."""
    if same_extents([count], [_extent(runs)]):
        return 0, runs
    (_, stride), inner = runs[0], runs[1:]
    length = _extent(inner)
    outer = start // length
    first = start % length
    last = start + (count - 1) * step
    if same_extents([last // length], [outer]):
        selection = _selected(inner, first, count, step)
        return selection and (selection[0] + outer * stride, selection[1])
    if divides(length, step):
        offset, _ = _selected(inner, first, 1, 1) or (0, ())
        return offset + outer * stride, ((count, step // length * stride),)
    rows = count * step
    if not (divides(step, length) and divides(length, rows)) or first >= step:
        return None
    selection = _selected(inner, first, length // step, step)
    return selection and (selection[0] + outer * stride, ((rows // length, stride), *selection[1]))
