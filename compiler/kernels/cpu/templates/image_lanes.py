"""The loop nest of a convolution with lanes along positions of the image."""

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import LINE
from compiler.kernels.cpu.templates.nests import Column, Nest, Place, Summand
from compiler.kernels.cpu.templates.prefetch import (
    SECOND_LEVEL,
    at_most,
    prefetch,
    prefetch_line,
)
from compiler.kernels.tir.loops import loop_over, scratch, sequence, vector_at, vector_loop


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
        sums, allocate = scratch("sums", self.width * pitch, self.operands.dtype)

        def step(number: Any) -> Stmt:
            tile = self._new_tile(self.tile.rows, vectors)
            first = number * (vectors * self.lanes)

            def tap(read: Summand, row: Any, column: Column) -> Stmt:
                weight = self._weight(place, read, row, column)
                position = self.first_position(place.chunk) + first + self._shift(row, column)
                base = self.channel_start(place, read) + position
                multiplied = tile.step(
                    lambda i: self.operands.weight(weights, weight + i),
                    lambda j: vector_at(source, base + starts[j], self.lanes),
                )
                return sequence([*self._ahead(place, read), multiplied])

            reduced = self._reduce(place, tile, tap)
            kept = tile.store(sums, lambda i, j: i * pitch + before + first + starts[j])
            return sequence([reduced, kept])

        epilogue = self._epilogue(
            place, weights, positions, lambda i, x: tirx.BufferLoad(sums, [i * pitch + before + x])
        )
        ahead = self._prefetched(place, positions)
        return sequence([*ahead, allocate, loop_over("step", self.tile.steps, step), epilogue])

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
        number = self.around.read_number(0)
        if number is None or not self.advances:
            return []
        image, last = self.around.reads[number], prod(self.conv.output) - 1
        lines = ceil_div(self.chunk_positions, LINE) + 1
        share = ceil_div(lines, self.tiles)
        base, next_ = self.image_start(place, summand), (place.chunk + 1) * self.chunk_positions

        def line(i: int) -> Stmt:
            own = at_most(place.tile * share + i, lines - 1) * LINE
            return prefetch_line(image, [base + at_most(next_ + own, last)], SECOND_LEVEL)

        return [line(i) for i in range(share)]

    def _prefetched(self, place: Place, positions: int) -> list[Stmt]:
        """Prefetch what the epilogue of a run of positions touches, a plane apart."""
        if not self.flat or positions < 2:
            return []
        first = place.chunk * self.chunk_positions

        def channel(i: Any) -> Stmt:
            own = tirx.min(place.tile * self.width + i, tirx.const(self.conv.filters - 1, "int32"))
            number = place.group * self.conv.filters + own
            return prefetch(self.around, self.lead(place, number), first, positions)

        return [loop_over("filter", self.width, channel)]

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
