"""The loop nest of a depthwise convolution whose tiles are several rows of the result.

Every vector of the input is loaded once for a column of the kernel, and multiplied for all rows of
the tile that it takes part in: with a tile of one row loads take twice as long as arithmetic.
Columns of the kernel stay a loop, as LLVM would otherwise load the weights of all of them before
the loop over chunks and have no registers left.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.templates.nests import Nest
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


class RowLanes(Nest):
    """Lanes along rows of the result; a tile has `rows` of them, one channel after another."""

    @property
    def width(self) -> int:
        return 1

    @property
    def part(self) -> int:
        """Columns of the result in a tile."""
        return self.tile.vectors * self.lanes

    @property
    def parts(self) -> int:
        """Chunks of a row."""
        return ceil_div(self.conv.output[1], self.part)

    @property
    def chunks(self) -> int:
        return ceil_div(self.conv.output[0], self.tile.rows) * self.parts

    @property
    def reach(self) -> int:
        rows = ceil_div(self.conv.output[0], self.tile.rows) * self.tile.rows
        return (rows - 1) * self.planes.pitch + self.parts * self.part + self.last_shift

    @cached_property
    def _reads(self) -> Mapping[tuple[int, int], Mapping[int, int]]:
        """The rows of the tile that a row of a phase of the planes is for, and their taps."""
        taps: dict[tuple[int, int], dict[int, int]] = {}
        down, stride = self.conv.dilations[0], self.conv.strides[0]
        for tap in range(self.conv.kernel[0]):
            phase = self.planes.row_phases.index(tap * down % stride)
            for row in range(self.tile.rows):
                taps.setdefault((phase, tap * down // stride + row), {})[row] = tap
        return taps

    def compute(self, place: Place, weights: Var, source: Var) -> Stmt:
        sums, allocate = scratch("sums", self.tile.rows * self.part, self.operands.dtype)
        summed = self._all_summed(place, weights, source, sums)
        return sequence([allocate, summed, self._stored_rows(place, weights, sums)])

    def _all_summed(self, place: Place, weights: Var, source: Var, sums: Var) -> Stmt:
        return self._summed(place, weights, source, sums, self.tile.vectors)

    def _summed(self, place: Place, weights: Var, source: Var, sums: Var, vectors: int) -> Stmt:
        """The sums of the first vectors of a chunk."""
        tile = self._new_tile(self.tile.rows, vectors)

        def column(j: Any) -> Stmt:
            return self._column(place, tile, weights, source, Column(0, j))

        kept = tile.store(sums, lambda i, j: i * self.part + j * self.lanes)
        return sequence([*tile.start(), loop_over(ROLLED, self.conv.kernel[1], column), kept])

    def _column(
        self, place: Place, tile: RegisterTile, weights: Var, source: Var, column: Column
    ) -> Stmt:
        """Multiply and add what one column of the kernel reads."""
        planes = self.planes
        summand = Summand(0)
        first = place.chunk // self.parts * (self.tile.rows * planes.pitch)
        first = first + place.chunk % self.parts * self.part
        start = self.channel_start(place, summand) + first + self._shift(0, column)

        def step(phase: int, row: int, taps: Mapping[int, int]) -> Stmt:
            below = phase * len(planes.column_phases) * planes.plane + row * planes.pitch
            return tile.step(
                lambda i: self.operands.weight(
                    weights, self._weight(place, summand, taps[i], column)
                ),
                lambda j: vector_at(source, start + below + j * self.lanes, self.lanes),
                rows=list(taps),
            )

        return sequence([step(*read, taps) for read, taps in self._reads.items()])

    def _stored_rows(self, place: Place, weights: Var, sums: Var) -> Stmt:
        first = place.chunk % self.parts * self.part
        top = place.chunk // self.parts * self.tile.rows

        def channel(_: Any, number: Any, bias: Any) -> Stmt:
            def one(y: Any, x: Any) -> Stmt:
                value = tirx.BufferLoad(sums, [y * self.part + x])
                value = value if bias is None else value + bias
                return self._store(place, number, top + y, first + x, value)

            return self._for_results(place, one)

        return self._for_channels(place, weights, channel)

    def _for_results(self, place: Place, one: Callable[[Any, Any], Stmt]) -> Stmt:
        """Its results: a vector of all rows comes before the next, as all rows have as many."""
        height, width = map(expression, self.conv.output)
        first = place.chunk % self.parts * self.part
        top = place.chunk // self.parts * self.tile.rows
        rows = tirx.min(height - top, tirx.const(self.tile.rows, "int32"))

        def column(x: Any) -> Stmt:
            return loop_over("row", rows, lambda y: one(y, x))

        whole = first + self.part <= width
        return tirx.IfThenElse(
            whole,
            vector_loop(self.part, self.lanes, column),
            vector_loop(width - first, self.lanes, column),
        )


class SizedRows(RowLanes, SizedLanes):
    """Rows of a result whose sizes a run decides."""

    @property
    def beyond(self) -> int:
        return self.tile.rows * self.planes.pitch + self.part

    @cached_property
    def _reads(self) -> Mapping[tuple[int, int], Mapping[int, int]]:
        return dict(sorted(super()._reads.items()))

    def _all_summed(self, place: Place, weights: Var, source: Var, sums: Var) -> Stmt:
        first = place.chunk % self.parts * self.part
        summed = partial(self._summed, place, weights, source, sums)
        return self.by_vectors(first, self.conv.output[1], summed)
