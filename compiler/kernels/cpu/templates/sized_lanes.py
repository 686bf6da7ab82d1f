"""The loop nest of a convolution whose batch or image a run decides.

Lanes are along row-major positions of planes, whose pitch is an extent. A chunk is a run of them,
across the ends of rows: what is computed for the columns between two rows of the result is not
stored. The last chunk has a body for each number of vectors, so that no run computes more than a
vector in vain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.planes import PlaneWriter
from compiler.kernels.cpu.templates.nests import Nest
from compiler.kernels.cpu.templates.places import Column, Place, Summand
from compiler.kernels.ops.opaque import ROLLED
from compiler.kernels.sizes import expression
from compiler.kernels.tir.loops import (
    Places,
    RegisterTile,
    element_at,
    loop_over,
    scratch,
    sequence,
    vector_at,
    vector_loop,
)
from compiler.kernels.tir.runs import IndexRun


class SizedLanes(Nest):
    """Lanes along positions of planes whose sizes are extents."""

    @property
    def width(self) -> int:
        return self.tile.rows

    @property
    def positions(self) -> int:
        """Positions of a plane from the first result to the last."""
        return (self.conv.output[0] - 1) * self.planes.pitch + self.conv.output[1]

    @property
    def chunk_positions(self) -> int:
        """Positions of a chunk."""
        return self.tile.vectors * self.lanes

    @property
    def chunks(self) -> int:
        return ceil_div(self.positions, self.chunk_positions)

    @property
    def beyond(self) -> int:
        """Elements after the last plane that the vectors of a chunk reach."""
        return self.chunk_positions

    @property
    def direct(self) -> bool:
        return False

    def compute(self, place: Place, weights: Var, source: Var) -> Stmt:
        """A chunk, by as many vectors as have results; a whole one's sums stay in registers."""
        first = place.chunk * self.chunk_positions
        end = expression(self.positions)
        elements = self.width * self.chunk_positions
        sums, allocate = scratch("sums", elements, self.operands.dtype)
        summed = partial(self._summed, place, weights, source, sums)
        chosen = self.by_vectors(first, self.positions, summed)
        rest = sequence([allocate, chosen, self._stored(place, weights, sums)])
        if not self.flat:
            return rest
        sums, allocate = scratch("whole", elements, self.operands.dtype)
        every = self._summed(place, weights, self.whole_source(source), sums, self.tile.vectors)
        stored = self._stored(place, weights, sums, self.chunk_positions)
        whole = sequence([allocate, every, stored])
        ahead = self._prefetched(place, self.chunk_positions, self.chunk_positions)
        within = first + self.chunk_positions <= end
        return sequence([*ahead, tirx.IfThenElse(within, whole, rest)])

    def whole_source(self, source: Var) -> Var:
        """The buffer of a whole chunk's vectors, where the last one's are read from another."""
        return source

    def chunk_start(self, place: Place, read: Summand, source: Var) -> Any:
        """Where a chunk begins in a channel of what its vectors are read from."""
        return self.channel_start(place, read) + place.chunk * self.chunk_positions

    def by_vectors(self, first: Any, end: Any, summed: Callable[[int], Stmt]) -> Stmt:
        """The sums of as many vectors from a position on as begin before an end."""
        chosen = summed(1)
        for vectors in range(2, self.tile.vectors + 1):
            last = first + (vectors - 1) * self.lanes
            chosen = tirx.IfThenElse(last < expression(end), summed(vectors), chosen)
        return chosen

    def _summed(self, place: Place, weights: Var, source: Var, sums: Var, vectors: int) -> Stmt:
        """The sums of the first vectors of a chunk."""
        tile = self._new_tile(self.tile.rows, vectors)

        def tap(read: Summand, row: Any, column: Column) -> Stmt:
            weight = self._weight(place, read, row, column)
            start = self.chunk_start(place, read, source) + self._shift(row, column)
            return tile.step(
                lambda i: self.operands.weight(weights, weight + i),
                lambda j: vector_at(source, start + j * self.lanes, self.lanes),
            )

        def at(i: int, j: int) -> Any:
            return i * self.chunk_positions + j * self.lanes

        return self._reduce(place, tile, tap, sums, at)

    def _reduce(
        self,
        place: Place,
        tile: RegisterTile,
        tap: Callable[[Summand, Any, Column], Stmt],
        sums: Var,
        at: Places,
    ) -> Stmt:
        """The sums over channels and taps, which stay loops where the planes' phases allow it."""
        height, width = self.conv.kernel
        if not self.planes.regular:
            return super()._reduce(place, tile, tap, sums, at)

        def row(read: Summand, i: Any) -> Stmt:
            return loop_over(ROLLED, width, lambda j: tap(read, i, Column(0, j)))

        def taps(read: Summand) -> Stmt:
            return loop_over(ROLLED, height, partial(row, read))

        return self._for_summands(place, tile, taps, sums, at)

    def _shift(self, row: Any, column: Column) -> Any:
        """The shift of a kernel tap, of which both may be loop variables with regular phases."""
        if not self.planes.regular:
            return super()._shift(row, column)
        (down, right), strides, planes = self.conv.dilations, self.conv.strides, self.planes
        y, x = row * down, (column.before + column.number) * right
        phase = y % strides[0] * len(planes.column_phases) + x % strides[1]
        inside = y // strides[0] * planes.pitch + x // strides[1]
        return (phase * planes.plane + inside) if planes.phases > 1 else inside

    def _stored(self, place: Place, weights: Var, sums: Var, count: Any = None) -> Stmt:
        """The results of a chunk: the columns of its rows that the result has.

        With one row of positions there are `count`, or those that are left.
        """
        pitch = self.planes.pitch
        width = self.conv.output[1]
        first = place.chunk * self.chunk_positions
        end = tirx.min(first + self.chunk_positions, expression(self.positions))

        def channel(i: Any, number: Any, bias: Any) -> Stmt:
            def one(y: Any, x: Any) -> Stmt:
                value = tirx.BufferLoad(sums, [i * self.chunk_positions + y * pitch + x - first])
                value = value if bias is None else value + bias
                return self._store(place, number, y, x, value)

            def row(y: Any) -> Stmt:
                columns = IndexRun.between(first - y * pitch, end - y * pitch, width)
                return columns.vectors(self.lanes, partial(one, y))

            if self.flat:
                own = expression(self.positions) - first if count is None else count
                return vector_loop(own, self.lanes, lambda x: one(0, first + x))
            top, bottom = first // pitch, (end - 1) // pitch
            return IndexRun(top, bottom - top + 1, True).loop("row", row)

        return self._for_channels(place, weights, channel)


class SizedPositions(SizedLanes):
    """Positions of an image that is read in place, all but the last chunk of each channel.

    That one is copied, lest its vectors exceed the image.
    """

    @property
    def stride(self) -> int:
        return self.chunk_positions

    @property
    def beyond(self) -> int:
        return 0

    def whole_source(self, source: Var) -> Var:
        return self.image

    @property
    def image(self) -> Var:
        """The image."""
        number = self.around.read_number(0)
        assert number is not None, "the image is in memory"
        return self.around.reads[number]

    def chunk_start(self, place: Place, read: Summand, source: Var) -> Any:
        if not source.same_as(self.image):
            return self.channel_start(place, read)
        group = place.image * self.conv.groups + place.group
        channel = group * self.conv.channels + read.channel
        return channel * expression(self.positions) + place.chunk * self.chunk_positions

    def _writer(self, workspace: Var) -> PlaneWriter:
        return _LastChunks(self.planes, self.operands, workspace, self.lanes, nest=self)


@dataclass(frozen=True)
class _LastChunks(PlaneWriter):
    """Writes the last chunk of each channel of an image, or an empty one."""

    nest: SizedPositions = field(kw_only=True)

    def fill_channel(self, lead: Sequence[Any], base: Any) -> Stmt:
        nest, conv = self.nest, self.planes.conv
        positions = expression(nest.positions)
        run = nest.chunk_positions
        first = tirx.floordiv(positions, run) * run
        start = (lead[0] * (conv.groups * conv.channels) + lead[1]) * positions + first

        def one(x: Any) -> Stmt:
            return tirx.BufferStore(self.target, element_at(nest.image, start + x), [base + x])

        copied = vector_loop(nest.positions - first, self.lanes, one)
        return sequence([*self.clear(base, run), copied])
