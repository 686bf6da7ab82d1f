"""The first launch of a convolution: its input as padded, phase-split planes in a workspace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import Convolution, Planes
from compiler.kernels.sizes import at_hint, expression, is_number
from compiler.kernels.tir.loops import (
    loop_over,
    sequence,
    spread,
    store_vector,
    vector_at,
    vector_loop,
)
from compiler.kernels.tir.runs import IndexRun, block_runs

MOST_APART = 4
"""The largest stride at which vectors are loaded whole, and the elements between left out."""

UNROLLED_PHASES = 9
"""Most phases that are separate code; more are a loop."""

BLOCK_ELEMENTS = 1 << 15
"""Elements that one block writes at least."""


class PlaneSource(Protocol):
    """The elements of the image that planes are made of."""

    @property
    def padding(self) -> Any:
        """The element around the image."""
        ...

    @property
    def image_number(self) -> int | None:
        """Which of the group's reads holds the elements, those of a row one after another; None
        if they are computed."""
        ...

    def element(self, lead: Sequence[Any], row: Any, column: Any) -> Any:
        """An element of the image, `lead` its number in the batch, its channel and its slice."""
        ...


def fill_planes(
    planes: Planes, source: PlaneSource, target: Var, stride: int, lanes: int, beyond: Any = 0
) -> Stmt:
    """Write an image into planes, `stride` elements from slice to slice of every channel.

    So many elements `beyond` the last plane are cleared.
    """
    conv = planes.conv
    channels, slices = conv.groups * conv.channels, conv.slices
    total = conv.batch * channels * slices
    run_planes = max(1, BLOCK_ELEMENTS // at_hint(stride))

    def channel(index: Any) -> Stmt:
        number, own = (index // slices, [index % slices]) if conv.depth else (index, [])
        lead = [number // channels, number % channels, *own]
        return fill_channel(planes, source, target, lead, index * stride, lanes)

    def run(runs: list[IndexRun], _: Any) -> Stmt:
        filled = runs[0].loop("plane", channel)
        return sequence([filled, *_by_first_block(runs[0].first, cleared)])

    cleared = clear(source, target, total * stride, beyond, lanes)
    return block_runs((ceil_div(at_hint(total), run_planes),), (total,), run)


def _by_first_block(first: Any, statements: list[Stmt]) -> list[Stmt]:
    """Statements for the block that begins with the first plane."""
    if isinstance(first, int) or not statements:
        return statements
    return [tirx.IfThenElse(first == 0, sequence(statements), None)]


def clear(source: PlaneSource, target: Var, start: Any, count: Any, lanes: int) -> list[Stmt]:
    """Write `count` elements of padding from `start` on.

    What is multiplied is written first, even where nothing reads the sums: memory may hold denormal
    numbers, which make cores many times slower.
    """

    def one(x: Any) -> Stmt:
        return tirx.BufferStore(target, source.padding, [start + x])

    return [] if isinstance(count, int) and count <= 0 else [vector_loop(count, lanes, one)]


def fill_channel(
    planes: Planes,
    source: PlaneSource,
    target: Var,
    lead: Sequence[Any],
    base: Any,
    lanes: int,
) -> Stmt:
    """Write the planes of one slice of a channel, which `lead` names, from `base` on."""
    numbers = is_number(planes.plane)
    fill = _fill_plane if numbers else _fill_sized_plane
    if planes.phases > UNROLLED_PHASES and planes.regular:
        if numbers:
            return _fill_phases(planes, source, target, lead, base, lanes)
        count = len(planes.column_phases)

        def one(phase: Any) -> Stmt:
            own, start = (phase // count, phase % count), base + phase * planes.plane
            return sequence(fill(planes, source, target, lead, start, own, lanes))

        return loop_over("phase", planes.phases, one)
    parts: list[Stmt] = []
    for number, phase in enumerate(product(planes.row_phases, planes.column_phases)):
        start = base + number * planes.plane
        parts += fill(planes, source, target, lead, start, phase, lanes)
    return sequence(parts)


def _fill_phases(
    planes: Planes,
    source: PlaneSource,
    target: Var,
    lead: Sequence[Any],
    base: Any,
    lanes: int,
) -> Stmt:
    """Write the planes of one channel with a loop over the phases, every element guarded."""
    conv = planes.conv
    height, width = conv.image
    columns = len(planes.column_phases)

    def element(phase: Any, y: Any, x: Any) -> Stmt:
        row = y * conv.strides[0] + phase // columns - conv.pads[0]
        column = x * conv.strides[1] + phase % columns - conv.pads[1]
        inside = tirx.all(row >= 0, row < height, column >= 0, column < width)
        value = source.element(lead, row, column)
        guarded = tirx.if_then_else(inside, value, source.padding)
        return tirx.BufferStore(
            target, guarded, [base + phase * planes.plane + y * planes.pitch + x]
        )

    def phase(number: Any) -> Stmt:
        def row(y: Any) -> Stmt:
            return loop_over("column", planes.pitch, lambda x: element(number, y, x))

        def after(x: Any) -> Stmt:
            place = base + number * planes.plane + planes.rows * planes.pitch + x
            return tirx.BufferStore(target, source.padding, [place])

        rest = planes.plane - planes.rows * planes.pitch
        rows = loop_over("row", planes.rows, row)
        return sequence([rows, vector_loop(rest, lanes, after)]) if rest else rows

    return loop_over("phase", planes.phases, phase)


@dataclass(frozen=True)
class StridedRow:
    """The elements of a row from column `first` on, `count` of them a stride apart, as vectors.

    TVM loads elements that are apart one by one, and LLVM unrolls loops over them first.
    """

    conv: Convolution
    first: int
    count: int
    most_lanes: int

    @property
    def lanes(self) -> int:
        """The elements of a vector: a power of two."""
        return min(self.most_lanes, 1 << max(0, self.count.bit_length() - 1))

    @property
    def span(self) -> int:
        """The columns that a vector's elements are among."""
        return self.lanes * self.conv.strides[1]

    @property
    def last(self) -> int:
        """The first column of the last vector, which ends with the row's last element."""
        return self.first + (self.count - self.lanes) * self.conv.strides[1]

    @property
    def after(self) -> int:
        """The columns of the last vector before its first element, lest it exceed the row."""
        return 0 if self.last + self.span <= self.conv.image[1] else self.conv.strides[1] - 1

    @property
    def fits(self) -> bool:
        """Whether all vectors are inside the row."""
        near = self.conv.strides[1] <= MOST_APART and self.lanes > 1
        return near and self.last >= self.after

    def copied(self, load: Callable[[Any], Any], target: Var, start: Any) -> Stmt:
        """Copy the elements, which `load` reads by their columns, to consecutive places."""
        stride, lanes = self.conv.strides[1], self.lanes

        def vector(place: Any, column: Any, before: int) -> Stmt:
            element: Any = load(column - before)
            read: Any = element.value if isinstance(element, tirx.Cast) else element
            wide = vector_at(read.source, read.indices[0], self.span)
            return store_vector(target, start + place, spread(wide, lanes, stride)(before), lanes)

        def one(number: Any) -> Stmt:
            return vector(number * lanes, self.first + number * self.span, 0)

        whole = ceil_div(self.count, lanes) - 1
        parts = [loop_over("vector", whole, one)] if whole else []
        return sequence([*parts, vector(self.count - lanes, self.last, self.after)])


def _fill_plane(
    planes: Planes,
    source: PlaneSource,
    target: Var,
    lead: Sequence[Any],
    base: Any,
    phase: tuple[int, int],
    lanes: int,
) -> list[Stmt]:
    conv, (a, b) = planes.conv, phase
    top, bottom = planes.inside(0, a, planes.rows)
    left, right = planes.inside(1, b, planes.pitch)

    def padding(start: Any, count: int) -> list[Stmt]:
        return clear(source, target, start, count, lanes)

    def row(y: Any) -> Stmt:
        start = base + (y + top) * planes.pitch
        at = (y + top) * conv.strides[0] + a - conv.pads[0]

        def copy(x: Any) -> Stmt:
            column = (x + left) * conv.strides[1] + b - conv.pads[1]
            value = source.element(lead, at, column)
            return tirx.BufferStore(target, value, [start + left + x])

        count = right - left
        if count <= 0:
            return sequence(padding(start, planes.pitch))
        first = left * conv.strides[1] + b - conv.pads[1]

        def load(column: Any) -> Any:
            return source.element(lead, at, column)

        if conv.strides[1] == 1:
            inner = vector_loop(count, lanes, copy)
        elif (
            source.image_number is not None
            and (vectors := StridedRow(conv, first, count, lanes)).fits
        ):
            inner = vectors.copied(load, target, start + left)
        else:
            inner = loop_over("column", count, copy)
        after = planes.pitch - right
        return sequence([*padding(start, left), inner, *padding(start + right, after)])

    rows = [loop_over("row", bottom - top, row)] if bottom > top else []
    after = planes.plane - bottom * planes.pitch
    before = padding(base, top * planes.pitch)
    return [*before, *rows, *padding(base + bottom * planes.pitch, after)]


def _fill_sized_plane(
    planes: Planes,
    source: PlaneSource,
    target: Var,
    lead: Sequence[Any],
    base: Any,
    phase: tuple[Any, Any],
    lanes: int,
) -> list[Stmt]:
    """Write a plane: rows of the image between columns of padding, and rows of padding."""
    conv, (a, b) = planes.conv, phase
    top, bottom = planes.inside(0, a, planes.rows)
    left, right = planes.inside(1, b, planes.pitch)

    def padding(first: Any, count: Any) -> list[Stmt]:
        return clear(source, target, first, count, lanes)

    def row(y: Any) -> Stmt:
        start = base + y * planes.pitch
        own = y * conv.strides[0] + a - conv.pads[0]

        def copy(x: Any) -> Stmt:
            column = (x + left) * conv.strides[1] + b - conv.pads[1]
            value = source.element(lead, own, column)
            return tirx.BufferStore(target, value, [start + left + x])

        inner = loop_over("column", right - left, copy)
        whole = [*padding(start, left), inner, *padding(start + right, planes.pitch - right)]
        empty = padding(start, planes.pitch)
        inside = tirx.all(y >= expression(top), y < expression(bottom))
        return tirx.IfThenElse(inside, sequence(whole), sequence(empty))

    rows = loop_over("row", planes.rows, row)
    return [rows, *padding(base + planes.rows * planes.pitch, planes.shared)]
