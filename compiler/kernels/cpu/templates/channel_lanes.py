"""The loop nest of a convolution with lanes along output channels."""

from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.templates.nests import Column, Nest, Place, Summand
from compiler.kernels.tir.loops import scratch, sequence, vector_loop


class ChannelLanes(Nest):
    """Lanes along output channels; a chunk is a run of positions in a line of the result.

    Lines are the rows of the result, or all its positions at once if `flat`.
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
    def chunks(self) -> int:
        return self._runs * (1 if self.flat else self.conv.output[0])

    @property
    def reach(self) -> int:
        return 0

    def compute(self, place: Place, weights: Var, source: Var) -> Stmt:
        whole = self._tile(place, weights, source, self.tile.rows)
        rest = self._line % self.tile.rows
        if not rest:
            return whole
        tail = self._tile(place, weights, source, rest)
        return tirx.IfThenElse(place.chunk % self._runs < self._runs - 1, whole, tail)

    def _tile(self, place: Place, weights: Var, source: Var, positions: int) -> Stmt:
        sums, allocate = scratch("sums", positions * self.width, self.operands.dtype)
        tile = self._new_tile(positions, self.tile.vectors)
        line, first = place.chunk // self._runs, place.chunk % self._runs * self.tile.rows

        def tap(channel: Summand, row: Any, column: Column) -> Stmt:
            start = first if self.flat else line * self.planes.pitch + first
            base = self.channel_start(place, channel) + start + self._shift(row, column)
            weight = self._weight(place, channel, row, column)
            return tile.step(
                lambda i: tirx.BufferLoad(source, [base + i]),
                lambda j: self.operands.weights(weights, weight + j * self.lanes, self.lanes),
            )

        def channel(i: Any, number: Any, bias: Any) -> Stmt:
            def one(x: Any) -> Stmt:
                value = tirx.BufferLoad(sums, [x * self.width + i])
                value = value if bias is None else value + bias
                return self._store(place, number, line, first + x, value)

            return vector_loop(positions, self.lanes, one)

        kept = tile.store(sums, lambda i, j: i * self.width + j * self.lanes)
        summed = self._reduce(place, tile, tap)
        return sequence([allocate, summed, kept, self._for_channels(place, weights, channel)])
