"""The loop nest of a depthwise convolution whose tiles are several rows of the result.

Every vector of the input is loaded once for a column of the kernel, and multiplied for all rows of
the tile that it takes part in: with a tile of one row loads take twice as long as arithmetic.
Columns of the kernel stay a loop, as LLVM would otherwise load the weights of all of them before
the loop over chunks and have no registers left.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.templates.nests import Nest
from compiler.kernels.cpu.templates.places import Column, Place, Summand
from compiler.kernels.ops.opaque import ROLLED
from compiler.kernels.tir.loops import (
    RegisterTile,
    loop_over,
    scratch,
    sequence,
    vector_at,
    vector_loop,
)


class RowLanes(Nest):
    """Lanes along rows of the result; a tile has `rows` of them, one channel after another."""

    @property
    def width(self) -> int:
        return 1

    @property
    def _part(self) -> int:
        """Columns of the result in a tile."""
        return self.tile.vectors * self.lanes

    @property
    def _parts(self) -> int:
        return ceil_div(self.conv.output[1], self._part)

    @property
    def chunks(self) -> int:
        return ceil_div(self.conv.output[0], self.tile.rows) * self._parts

    @property
    def reach(self) -> int:
        rows = ceil_div(self.conv.output[0], self.tile.rows) * self.tile.rows
        return (rows - 1) * self.planes.pitch + self._parts * self._part + self.last_shift

    @cached_property
    def _reads(self) -> Mapping[int, Mapping[int, int]]:
        """The rows of the tile that a position below the tile's first is for, and their taps."""
        taps: dict[int, dict[int, int]] = {}
        for tap in range(self.conv.kernel[0]):
            for row in range(self.tile.rows):
                place = self._shift(tap, Column(0)) + row * self.planes.pitch
                taps.setdefault(place, {})[row] = tap
        return taps

    def compute(self, place: Place, weights: Var, source: Var) -> Stmt:
        sums, allocate = scratch("sums", self.tile.rows * self._part, self.operands.dtype)
        tile = self._new_tile(self.tile.rows, self.tile.vectors)
        columns = self.conv.kernel[1]
        summed = loop_over(
            ROLLED,
            columns,
            lambda j: self._column(place, tile, weights, source, Column(0, j)),
        )
        kept = tile.store(sums, lambda i, j: i * self._part + j * self.lanes)
        stored = self._epilogue(place, weights, sums)
        return sequence([allocate, *tile.start(), summed, kept, stored])

    def _column(
        self, place: Place, tile: RegisterTile, weights: Var, source: Var, column: Column
    ) -> Stmt:
        """Multiply and add what one column of the kernel reads."""
        chunk, summand = place.chunk, Summand(0)
        first = chunk // self._parts * (self.tile.rows * self.planes.pitch)
        first = first + chunk % self._parts * self._part
        start = self.channel_start(place, summand) + first
        right = self._shift(0, column) - self._shift(0, Column(0))

        def step(position: int, taps: Mapping[int, int]) -> Stmt:
            return tile.step(
                lambda i: self.operands.weight(
                    weights, self._weight(place, summand, taps[i], column)
                ),
                lambda j: vector_at(source, start + position + right + j * self.lanes, self.lanes),
                rows=list(taps),
            )

        return sequence([step(position, taps) for position, taps in self._reads.items()])

    def _epilogue(self, place: Place, weights: Var, sums: Var) -> Stmt:
        (height, width), rows, parts = self.conv.output, self.tile.rows, self._parts

        def line(y: Any, number: Any, bias: Any, extent: int) -> Stmt:
            def one(x: Any) -> Stmt:
                value = tirx.BufferLoad(sums, [y * self._part + x])
                value = value if bias is None else value + bias
                column = place.chunk % parts * self._part + x
                return self._store(place, number, place.chunk // parts * rows + y, column, value)

            return vector_loop(extent, self.lanes, one)

        def channel(_: Any, number: Any, bias: Any) -> Stmt:
            def row(y: Any) -> Stmt:
                stored = line(y, number, bias, width - (parts - 1) * self._part)
                if parts > 1:
                    whole = line(y, number, bias, self._part)
                    stored = tirx.IfThenElse(place.chunk % parts < parts - 1, whole, stored)
                guard = place.chunk // parts * rows + y < height
                return tirx.IfThenElse(guard, stored, None) if height % rows else stored

            return loop_over("row", rows, row)

        return self._for_channels(place, weights, channel)
