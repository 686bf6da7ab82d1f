"""The first launch of a convolution: its input as padded, phase-split planes in a workspace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Protocol

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import Planes
from compiler.kernels.sizes import at_hint, expression, is_number
from compiler.kernels.tir.loops import (
    lane_loop,
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

    if is_number(count):
        return [vector_loop(count, lanes, one)] if count > 0 else []
    return [loop_over("element", count, one)]


@dataclass(frozen=True)
class RowVectors:
    """The elements of a row from column `first` on, `count` of them a stride apart, as vectors.

    The last vector ends with the row's last element, whatever is copied twice, unless they are
    consecutive and a number; it is loaded from so many columns `before` its first element on, lest
    it exceed the row. TVM loads elements that
    are apart one by one, and LLVM unrolls loops over them first.
    """

    first: Any
    count: Any
    lanes: int
    stride: int
    before: int

    def copied(self, load: Callable[[Any], Any], target: Var, start: Any) -> Stmt:
        """Copy the elements, which `load` reads by their columns, to consecutive places."""
        lanes, stride = self.lanes, self.stride

        def one(x: Any) -> Stmt:
            return tirx.BufferStore(target, load(self.first + x), [start + x])

        def vector(place: Any, before: int) -> Stmt:
            column, own = self.first + place * stride - before, start + place
            if stride == 1 or lanes == 1:
                return lane_loop(
                    lanes, lambda lane: tirx.BufferStore(target, load(column + lane), [own + lane])
                )
            element: Any = load(column)
            read: Any = element.value if isinstance(element, tirx.Cast) else element
            wide = vector_at(read.source, read.indices[0], lanes * stride)
            return store_vector(target, own, spread(wide, lanes, stride)(before), lanes)

        if lanes == 1:
            return loop_over("column", self.count, lambda x: vector(x, 0))
        if stride == 1 and is_number(self.count):
            return vector_loop(self.count, lanes, one)
        whole = (self.count - 1) // lanes
        last = vector(self.count - lanes, self.before)
        if is_number(whole) and not whole:
            return last
        return sequence([loop_over("vector", whole, lambda i: vector(i * lanes, 0)), last])


@dataclass(frozen=True)
class PlaneWriter:
    """Writes planes of an image into a buffer, `lanes` elements at a time.

    They are `padded` unless all around the image, which a run decides, is known to be cleared.
    """

    planes: Planes
    source: PlaneSource
    target: Var
    lanes: int
    padded: bool = True

    def fill(self, stride: int, beyond: Any = 0) -> Stmt:
        """Write all planes, `stride` elements from slice to slice of every channel.

        So many elements `beyond` the last plane are cleared.
        """
        conv = self.planes.conv
        channels = conv.groups * conv.channels
        slices = conv.slices
        total = conv.batch * channels * slices
        run_planes = max(1, BLOCK_ELEMENTS // at_hint(stride))

        def channel(index: Any) -> Stmt:
            number, own = (index // slices, [index % slices]) if conv.depth else (index, [])
            lead = [number // channels, number % channels, *own]
            return self.fill_channel(lead, index * stride)

        def run(runs: list[IndexRun], _: Any) -> Stmt:
            filled = runs[0].loop("plane", channel)
            return sequence([filled, *_by_first_block(runs[0].first, cleared)])

        cleared = self.clear(total * stride, beyond)
        return block_runs((ceil_div(at_hint(total), run_planes),), (total,), run)

    def clear(self, start: Any, count: Any) -> list[Stmt]:
        """Write `count` elements of padding from `start` on."""
        return clear(self.source, self.target, start, count, self.lanes)

    def fill_channel(self, lead: Sequence[Any], base: Any) -> Stmt:
        """Write the planes of one slice of a channel, which `lead` names, from `base` on."""
        if self.planes.phases > UNROLLED_PHASES and self.planes.regular:
            count = len(self.planes.column_phases)

            def one(phase: Any) -> Stmt:
                start = base + phase * self.planes.plane
                return sequence(self._fill_plane(lead, start, (phase // count, phase % count)))

            return loop_over("phase", self.planes.phases, one)
        parts: list[Stmt] = []
        for number, phase in enumerate(product(self.planes.row_phases, self.planes.column_phases)):
            parts += self._fill_plane(lead, base + number * self.planes.plane, phase)
        return sequence(parts)

    def _fill_plane(self, lead: Sequence[Any], base: Any, phase: tuple[Any, Any]) -> list[Stmt]:
        """Write a plane: rows of the image between columns of padding, and rows of padding."""
        conv, pitch = self.planes.conv, self.planes.pitch
        top, bottom = self.planes.inside(0, phase[0], self.planes.rows)
        left, right = self.planes.inside(1, phase[1], pitch)
        for first, last in ((top, bottom), (left, right)):
            if is_number(first) and is_number(last) and first == last:
                return self.clear(base, self.planes.plane) if self.padded else []
        place = tuple(own - pad for own, pad in zip(phase, conv.pads, strict=True))
        stride = conv.strides[1]
        count = right - left

        def rows(lanes: int) -> Stmt:
            vectors = RowVectors(left * stride + place[1], count, lanes, stride, stride - 1)

            def row(y: Any) -> Stmt:
                start, own = base + y * pitch, y * conv.strides[0] + place[0]
                load = partial(self.source.element, lead, own)
                inner = vectors.copied(load, self.target, start + left)
                after = self.clear(start + right, pitch - right) if self.padded else []
                return sequence([*(self.clear(start, left) if self.padded else []), inner, *after])

            return IndexRun(top, expression(bottom) - top, True).loop("row", row)

        copied = self._by_length(count, rows)
        if not self.padded:
            return [copied]
        before = self.clear(base, top * pitch)
        return [
            *before,
            copied,
            *self.clear(base + bottom * pitch, self.planes.plane - bottom * pitch),
        ]

    def _by_length(self, count: Any, rows: Callable[[int], Stmt]) -> Stmt:
        """The rows of `count` elements in vectors of as many lanes as these have.

        Of elements apart a vector's last column may be after the row's, so that there are two.
        """
        stride = self.planes.conv.strides[1]
        if stride == 1 and is_number(count):
            return rows(self.lanes)
        chosen = rows(1)
        if stride == 1 or (stride <= MOST_APART and self.source.image_number is not None):
            for lanes in [n for n in (self.lanes // 4, self.lanes // 2, self.lanes) if n > 1]:
                least = lanes if stride == 1 else lanes + 1
                if is_number(count):
                    chosen = rows(lanes) if count >= least else chosen
                else:
                    chosen = tirx.IfThenElse(expression(count) >= least, rows(lanes), chosen)
        return chosen
