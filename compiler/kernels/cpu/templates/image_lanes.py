"""The loop nest of a convolution with lanes along positions of the image."""

from collections.abc import Callable
from functools import cached_property
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import LINE
from compiler.kernels.cpu.prefetch import (
    SECOND_LEVEL,
    at_most,
    prefetch_line,
)
from compiler.kernels.cpu.templates.nests import Nest
from compiler.kernels.cpu.templates.places import Column, Place, Summand
from compiler.kernels.cpu.tiling import split_blocks
from compiler.kernels.tir.loops import (
    loop_over,
    scratch,
    sequence,
    vector_at,
    vector_loop,
)

LEAST_TILES, LEAST_CHANNELS = 4, 32
"""The fewest tiles of output channels that passes are for, and the fewest channels of a pass."""


class ImageLanes(Nest):
    """Lanes along row-major positions of the planes."""

    @property
    def width(self) -> int:
        return self.tile.rows

    @property
    def chunk_positions(self) -> int:
        """Positions that the vectors of a chunk cover."""
        return self.tile.steps * self.tile.vectors * self.lanes

    @property
    def _advance(self) -> int:
        """Positions from one chunk to the next."""
        return self.chunk_positions if self.flat else self.tile.span * self.planes.pitch

    @property
    def _parts(self) -> int:
        """Chunks of a row; of rows that a chunk covers whole there is one."""
        whole = self.flat or self.tile.span > 1
        return 1 if whole else ceil_div(self.conv.output[1], self.chunk_positions)

    @property
    def chunks(self) -> int:
        if self.flat:
            return ceil_div(prod(self.conv.output), self.chunk_positions)
        return ceil_div(self.conv.output[0], self.tile.span) * self._parts

    @property
    def reach(self) -> int:
        last_shift = 0 if self.flat else self.last_shift
        rows, part = divmod(self.chunks - 1, self._parts)
        return rows * self._advance + (part + 1) * self.chunk_positions + last_shift

    @property
    def ends_exactly(self) -> bool:
        """Whether the last vector of an image must not read past its end."""
        return self.flat

    def first_position(self, chunk: Any) -> Any:
        """The position in the planes at which a chunk begins."""
        parts = self._parts
        if parts == 1:
            return chunk * self._advance
        return chunk // parts * self._advance + chunk % parts * self.chunk_positions

    def compute(self, place: Place, weights: Var, source: Var) -> Stmt:
        whole = self.summed(place, weights, source, self.tile.vectors, self.chunk_positions)
        rest = prod(self.conv.output) % self.chunk_positions if self.flat else 0
        if not rest:
            return whole
        tail = self.summed(place, weights, source, ceil_div(rest, self.lanes), rest)
        if self.chunks == 1:
            return tail
        return tirx.IfThenElse(place.chunk < self.chunks - 1, whole, tail)

    def summed(self, place: Place, weights: Var, source: Var, vectors: int, positions: int) -> Stmt:
        """Sum and store the first `positions` of a chunk; the last vector ends there if flat."""
        starts = [j * self.lanes for j in range(vectors)]
        if self.ends_exactly:
            starts[-1] = min(starts[-1], positions - self.lanes)
        before = max(0, -starts[-1])
        pitch = self.chunk_positions + before
        sums, base, allocate = self._sums(place, self.width * pitch)

        def step(number: Any) -> Stmt:
            tile = self._new_tile(self.tile.rows, vectors)
            first = number * (vectors * self.lanes)

            def tap(read: Summand, row: Any, column: Column) -> Stmt:
                weight = self._weight(place, read, row, column)
                position = self.first_position(place.chunk) + first + self._shift(row, column)
                start = self.channel_start(place, read) + position
                multiplied = tile.step(
                    lambda i: self.operands.weight(weights, weight + i),
                    lambda j: vector_at(source, start + starts[j], self.lanes),
                )
                return sequence([*self._ahead(place, read), multiplied])

            def at(i: int, j: int) -> Any:
                return base + i * pitch + before + first + starts[j]

            return self._reduce(place, tile, tap, sums, at)

        epilogue = self._epilogue(
            place,
            weights,
            positions,
            lambda i, x: tirx.BufferLoad(sums, [base + i * pitch + before + x]),
        )
        ahead = self._in_last_pass(place, self._prefetched(place, self.chunk_positions, positions))
        steps = loop_over("step", self.tile.steps, step)
        finish = self._in_last_pass(place, [epilogue])
        return sequence([*ahead, *allocate, steps, *finish])

    @property
    def passes(self) -> int:
        """Passes over the tiles of a chunk: what one reads of the image stays in the first-level
        cache, and so do the sums of a block."""
        conv = self.conv
        kept = self._runs[2] * self.sums_elements * 4
        if not self.flat or conv.depth or self.tiles < LEAST_TILES or kept > self.near:
            return 1
        most = max(1, conv.channels // LEAST_CHANNELS)
        run = ceil_div(conv.channels, min(most, ceil_div(self._chunk_bytes, self.near)))
        return ceil_div(conv.channels, min(run, self.most_channels)) if run < conv.channels else 1

    @property
    def _chunk_bytes(self) -> int:
        """The bytes of the lines of the image that a chunk reads."""
        return self.conv.channels * self.chunk_lines * LINE * 4

    @property
    def chunk_lines(self) -> int:
        """The lines of a channel that a chunk reads, wherever it begins."""
        return ceil_div(self.chunk_positions, LINE) + 1

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The blocks along groups, chunks and tiles."""
        extents = (self.units, self.chunks, self.tiles)
        return split_blocks(self.slots * self.units, *extents)

    @property
    def _runs(self) -> list[int]:
        extents = (self.units, self.chunks, self.tiles)
        return [ceil_div(n, count) for n, count in zip(extents, self.blocks, strict=True)]

    @property
    def kept_tiles(self) -> int:
        """Each block keeps the sums of its tiles of one chunk."""
        return prod(self.blocks) * self._runs[2]

    @property
    def sums_elements(self) -> int:
        return self.width * (self.chunk_positions + self.lanes)

    def _sums(self, place: Place, elements: int) -> tuple[Var, Any, list[Stmt]]:
        """The buffer of a place's sums, where they begin, and its allocation."""
        if place.part is None:
            sums, allocate = scratch("sums", elements, self.operands.dtype)
            return sums, 0, [allocate]
        blocks, runs = self.blocks, self._runs
        unit = place.image * self.conv.groups + place.group
        block = (unit // runs[0] * blocks[1] + place.chunk // runs[1]) * blocks[2]
        number = (block + place.tile // runs[2]) * runs[2] + place.tile % runs[2]
        return place.part.sums, number * self.sums_elements, []

    def _in_last_pass(self, place: Place, statements: list[Stmt]) -> list[Stmt]:
        if place.part is None or not statements:
            return statements
        last = place.part.number == self.passes - 1
        return [tirx.IfThenElse(last, sequence(statements), None)]

    @property
    def advances(self) -> bool:
        """Whether every chunk reads new lines of a large image, as it is in memory."""
        return self.direct and self.far

    @property
    def far(self) -> bool:
        """Whether an image of many chunks leaves the second-level cache before it is read."""
        bytes = self.conv.groups * self.conv.summands * prod(self.conv.image) * 4
        return self.chunks > 1 and bytes > self.cache // 2

    def image_start(self, place: Place, summand: Summand) -> Any:
        """Where a slice of a channel begins in an image that chunks advance through."""
        return self.channel_start(place, summand)

    def _ahead(self, place: Place, summand: Summand) -> list[Stmt]:
        """Prefetch a share of what the next chunk reads of a channel.

        Channels are pages apart, so that no core foresees their lines: the first tile of output
        channels would wait for each.
        """
        number = self.operands.image_number
        if number is None or not self.advances:
            return []
        image = self.around.reads[number]
        last = prod(self.conv.output) - 1
        lines = self.chunk_lines
        share = ceil_div(self.chunk_lines, self.tiles)
        base = self.image_start(place, summand)
        next_ = (place.chunk + 1) * self.chunk_positions

        def line(i: int) -> Stmt:
            own = at_most(place.tile * share + i, lines - 1) * LINE
            return prefetch_line(image, [base + at_most(next_ + own, last)], SECOND_LEVEL)

        return [line(i) for i in range(share)]

    def _epilogue(
        self, place: Place, weights: Var, positions: int, total: Callable[[Any, Any], Any]
    ) -> Stmt:
        (height, width), span, pitch = self.conv.output, self.tile.span, self.planes.pitch
        parts = self._parts
        last = width - (parts - 1) * self.chunk_positions

        def line(i: Any, number: Any, bias: Any, y: Any, extent: int) -> Stmt:
            def one(x: Any) -> Stmt:
                value = total(i, y * pitch + x)
                before = place.chunk if self.flat else place.chunk % parts if parts > 1 else 0
                row = place.chunk // parts * span + y
                value = value if bias is None else value + bias
                return self._store(place, number, row, before * self.chunk_positions + x, value)

            return vector_loop(extent, self.lanes, one)

        def channel(i: Any, number: Any, bias: Any) -> Stmt:
            if self.flat:
                return line(i, number, bias, 0, positions)

            def row(y: Any) -> Stmt:
                statement = line(i, number, bias, y, last)
                if parts > 1:
                    full = line(i, number, bias, y, self.chunk_positions)
                    statement = tirx.IfThenElse(place.chunk % parts < parts - 1, full, statement)
                guard = place.chunk * span + y < height
                return tirx.IfThenElse(guard, statement, None) if height % span else statement

            return loop_over("row", span, row)

        return self._for_channels(place, weights, channel)
