"""The loop nest of a depthwise convolution over sizes that a run decides; see `row_lanes`."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.templates.places import Column, Place, Summand
from compiler.kernels.cpu.templates.sized_lanes import SizedLanes
from compiler.kernels.ops.opaque import ROLLED
from compiler.kernels.sizes import expression
from compiler.kernels.tir.loops import (
    RegisterTile,
    loop_over,
    scratch,
    sequence,
    vector_at,
    vector_loop,
)


class SizedRows(SizedLanes):
    """Lanes along rows of the result; a tile has `rows` of them, one channel after another."""

    @property
    def width(self) -> int:
        return 1

    @property
    def parts(self) -> int:
        """Chunks of a row."""
        return ceil_div(self.conv.output[1], self.chunk_positions)

    @property
    def chunks(self) -> int:
        return ceil_div(self.conv.output[0], self.tile.rows) * self.parts

    @property
    def beyond(self) -> int:
        return self.tile.rows * self.planes.pitch + self.chunk_positions

    @cached_property
    def _reads(self) -> Mapping[tuple[int, int], Mapping[int, int]]:
        """The rows of the tile that a row of a phase of the planes is for, and their taps."""
        taps: dict[tuple[int, int], dict[int, int]] = {}
        down, stride = self.conv.dilations[0], self.conv.strides[0]
        for tap in range(self.conv.kernel[0]):
            for row in range(self.tile.rows):
                phase, line = tap * down % stride, tap * down // stride + row
                taps.setdefault((phase, line), {})[row] = tap
        return dict(sorted(taps.items()))

    def compute(self, place: Place, weights: Var, source: Var) -> Stmt:
        """A part of some rows, by as many vectors as have results."""
        sums, allocate = scratch("sums", self.tile.rows * self.chunk_positions, "float32")
        first = place.chunk % self.parts * self.chunk_positions
        chosen: Any = None
        for vectors in range(1, self.tile.vectors + 1):
            own = self._summed(place, weights, source, sums, vectors)
            last = first + (vectors - 1) * self.lanes
            more = last < expression(self.conv.output[1])
            chosen = own if chosen is None else tirx.IfThenElse(more, own, chosen)
        return sequence([allocate, chosen, self._stored(place, weights, sums)])

    def _summed(self, place: Place, weights: Var, source: Var, sums: Var, vectors: int) -> Stmt:
        tile = self._new_tile(self.tile.rows, vectors)

        def column(j: Any) -> Stmt:
            return self._column(place, tile, weights, source, Column(0, j))

        kept = tile.store(sums, lambda i, j: i * self.chunk_positions + j * self.lanes)
        return sequence([*tile.start(), loop_over(ROLLED, self.conv.kernel[1], column), kept])

    def _column(
        self, place: Place, tile: RegisterTile, weights: Var, source: Var, column: Column
    ) -> Stmt:
        """Multiply and add what one column of the kernel reads."""
        planes, summand = self.planes, Summand(0)
        first = place.chunk // self.parts * (self.tile.rows * planes.pitch)
        first = first + place.chunk % self.parts * self.chunk_positions
        start = self.channel_start(place, summand) + first + self._shift(0, column)

        def step(phase: int, row: int, taps: Mapping[int, int]) -> Stmt:
            before = phase * len(planes.column_phases) * planes.plane + row * planes.pitch
            return tile.step(
                lambda i: self.operands.weight(
                    weights, self._weight(place, summand, taps[i], column)
                ),
                lambda j: vector_at(source, start + before + j * self.lanes, self.lanes),
                rows=list(taps),
            )

        return sequence([step(*read, taps) for read, taps in self._reads.items()])

    def _stored(self, place: Place, weights: Var, sums: Var) -> Stmt:
        height, width = map(expression, self.conv.output)
        first = place.chunk % self.parts * self.chunk_positions
        top = place.chunk // self.parts * self.tile.rows

        def channel(_: Any, number: Any, bias: Any) -> Stmt:
            def line(y: Any, extent: Any) -> Stmt:
                def one(x: Any) -> Stmt:
                    value = tirx.BufferLoad(sums, [y * self.chunk_positions + x])
                    value = value if bias is None else value + bias
                    return self._store(place, number, top + y, first + x, value)

                return vector_loop(extent, self.lanes, one)

            def row(y: Any) -> Stmt:
                rest = line(y, tirx.min(width - first, tirx.const(self.chunk_positions, "int32")))
                whole = line(y, self.chunk_positions)
                return tirx.IfThenElse(first + self.chunk_positions <= width, whole, rest)

            rows = tirx.min(height - top, tirx.const(self.tile.rows, "int32"))
            return loop_over("row", rows, row)

        return self._for_channels(place, weights, channel)
