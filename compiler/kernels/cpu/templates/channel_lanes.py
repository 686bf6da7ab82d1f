"""The loop nest of a convolution with lanes along output channels."""

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import LINE
from compiler.kernels.cpu.prefetch import prefetch_share
from compiler.kernels.cpu.templates.nests import Nest
from compiler.kernels.cpu.templates.places import Column, Place, Summand
from compiler.kernels.cpu.templates.sized_lanes import SizedLanes
from compiler.kernels.sizes import as_size, at_hint, expression
from compiler.kernels.tir.loops import scratch, sequence, vector_loop

LEAST_CHANNELS = 16
"""The fewest input channels of a pass."""


@dataclass(frozen=True)
class ChannelLanes(Nest):
    """Lanes along output channels; a chunk is a run of positions in a line of the result.

    Lines are the rows of the result, or all its positions at once if `flat`. All chunks read a
    tile's weights. Where that is more than all tiles reading the image, the weights stay in the
    second-level cache: if need be, those of some input channels after others.
    """

    @property
    def width(self) -> int:
        return self.tile.vectors * self.lanes

    @property
    def _line(self) -> int:
        return prod(self.conv.output) if self.flat else self.conv.output[1]

    @property
    def _runs(self) -> int:
        return ceil_div(self._line, self.tile.rows)

    @property
    def _run(self) -> int:
        """Positions of a chunk, of which the last one of a line may have fewer."""
        return self.tile.rows

    @property
    def chunks(self) -> int:
        return self._runs * (1 if self.flat else self.conv.output[0])

    @property
    def _panel_bytes(self) -> int:
        return self.conv.summands * prod(self.taps.kernel) * self.width * 4

    @property
    def passes(self) -> int:
        if not self.tiles_first:
            return 1
        most = max(1, self.conv.channels // LEAST_CHANNELS)
        channels = self.conv.channels
        run = ceil_div(channels, min(most, ceil_div(self._panel_bytes, self._room)))
        return ceil_div(channels, min(run, self.most_channels)) if run < channels else 1

    @property
    def tiles_first(self) -> bool:
        weights, image = self.tiles * self._panel_bytes, at_hint(self.unit_elements) * 4
        chunks = at_hint(self.chunks)
        far = chunks > 1 and weights > self._room
        return far and self.tiles * image < chunks * weights

    @property
    def _room(self) -> int:
        """The bytes of the cache that weights may fill."""
        return self.cache // 2

    def compute(self, place: Place, weights: Var, source: Var) -> Stmt:
        whole = self._tile(place, weights, source, self.tile.rows)
        rest = self._line % self.tile.rows
        if not rest:
            return whole
        tail = self._tile(place, weights, source, rest)
        return tirx.IfThenElse(place.chunk % self._runs < self._runs - 1, whole, tail)

    def _tile(self, place: Place, weights: Var, source: Var, positions: int) -> Stmt:
        sums, base, allocate = self._sums(place, positions)
        tile = self._new_tile(positions, self.tile.vectors)
        line, first = place.chunk // self._runs, place.chunk % self._runs * self._run

        def tap(channel: Summand, row: Any, column: Column) -> Stmt:
            start = first if self.flat else line * self.planes.pitch + first
            first_read = self.channel_start(place, channel) + start + self._shift(row, column)
            weight = self._weight(place, channel, row, column)
            multiplied = tile.step(
                lambda i: tirx.BufferLoad(source, [first_read + i]),
                lambda j: self.operands.weights(weights, weight + j * self.lanes, self.lanes),
            )
            ahead = self._ahead(place, channel, row, column, weights)
            return sequence([*ahead, multiplied])

        def channel(i: Any, number: Any, bias: Any) -> Stmt:
            def one(x: Any) -> Stmt:
                value = tirx.BufferLoad(sums, [base + x * self.width + i])
                value = value if bias is None else value + bias
                return self._store(place, number, line, first + x, value)

            return vector_loop(positions, self.lanes, one)

        def at(i: int, j: int) -> Any:
            return base + i * self.width + j * self.lanes

        finish = self._for_channels(place, weights, channel)
        summed = self._reduce(place, tile, tap, sums, at)
        if place.part is None:
            return sequence([*allocate, summed, finish])
        last = tirx.IfThenElse(place.part.number == self.passes - 1, finish, None)
        return sequence([summed, last])

    def _ahead(
        self, place: Place, summand: Summand, row: Any, column: Column, weights: Var
    ) -> list[Stmt]:
        """Prefetch a share of the weights that all chunks read after those of this tile and pass.

        Otherwise the first chunk would wait for memory and the others leave it idle.
        """
        if not self.tiles_first:
            return []
        step = self._weight(place, summand, row, column)
        start = self._weight(place, Summand(place.part.first if place.part else 0), 0, Column(0))
        channels = place.part.channels if place.part else self.conv.channels
        run = channels * (self.conv.depth_taps * prod(self.taps.kernel) * self.width)
        share = ceil_div(ceil_div(self.width, LINE), at_hint(self.chunks)) * LINE
        done = place.chunk * (run // self.width) + (step - start) // self.width
        rows = self.conv.summands * prod(self.taps.kernel) + self.operands.head_rows
        last = self.conv.groups * self.tiles * rows * self.width - 1
        return prefetch_share(weights, start + run, run, done, share=share, last=last)

    def _sums(self, place: Place, positions: int) -> tuple[Var, Any, list[Stmt]]:
        """The buffer of a place's sums, where they begin, and its allocation."""
        if place.part is None:
            sums, allocate = scratch("sums", positions * self.width, self.operands.dtype)
            return sums, 0, [allocate]
        unit = place.image * self.conv.groups + place.group
        number = (unit * self.tiles + place.tile) * self.chunks + place.chunk
        return place.part.sums, number * self.sums_elements, []


class SizedChannels(ChannelLanes, SizedLanes):
    """Lines of a result whose sizes a run decides, in chunks as even as can be.

    There is a body for each number of positions.
    """

    @property
    def direct(self) -> bool:
        return self.flat and self.conv.pointwise and self.operands.reads_image

    @property
    def beyond(self) -> int:
        return 0

    @property
    def _run(self) -> int:
        return as_size(ceil_div(self._line, self._runs))

    def compute(self, place: Place, weights: Var, source: Var) -> Stmt:
        left = expression(self._line) - place.chunk % self._runs * self._run
        own = tirx.min(left, expression(self._run))
        chosen = self._tile(place, weights, source, 1)
        for positions in range(2, self.tile.rows + 1):
            more = self._tile(place, weights, source, positions)
            chosen = tirx.IfThenElse(own >= positions, more, chosen)
        return chosen
