"""The loop nests of a convolution over planes; `conv2d` shows them and chooses between them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import LINE, Convolution, Planes
from compiler.kernels.cpu.operands import ConvOperands
from compiler.kernels.cpu.planes import PlaneWriter
from compiler.kernels.cpu.prefetch import prefetch
from compiler.kernels.cpu.templates.places import ChannelRun, Column, Place, Summand, Taps
from compiler.kernels.cpu.tiling import Tile, split_blocks
from compiler.kernels.long_sums import LONG_SUM, run_of
from compiler.kernels.sizes import at_hint, is_number
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import (
    FLOAT32,
    Places,
    RegisterTile,
    buffer,
    loop_over,
    run_length,
    scratch,
    sequence,
)
from compiler.kernels.tir.runs import IndexRun, block_count, block_runs
from compiler.target.caches import TYPICAL_CACHE, TYPICAL_FIRST_CACHE

LOCAL_UNITS = 16
"""From this many groups on, blocks divide the groups and fill their planes themselves."""

LOCAL_PLANES_BYTES = 512 << 10
"""Most bytes of one group's planes then, which are to stay in the second-level cache."""

UNROLLED_TAPS = 12
"""Most kernel taps that are unrolled together; of a larger kernel, one row at a time."""

UNROLLED_COLUMNS = 64
"""Most kernel taps of a row that are unrolled; of a longer row, so many at a time."""


@dataclass(frozen=True)
class Nest(ABC):
    """A convolution with its tile; `flat` when chunks are runs of an image's positions.

    `slots` is the estimated cost of one group of one image; `operands` has the elements; `cache`
    is the bytes of a core's second-level cache, `near` what its first one may hold of an image.
    """

    conv: Convolution
    around: FusionContext
    tile: Tile
    lanes: int
    flat: bool
    slots: float
    planes: Planes
    taps: Taps
    operands: ConvOperands
    cache: int = TYPICAL_CACHE
    near: int = TYPICAL_FIRST_CACHE // 2

    @property
    @abstractmethod
    def width(self) -> int:
        """Output channels of one tile."""

    @property
    @abstractmethod
    def chunks(self) -> int:
        """Chunks of output positions in an image."""

    @property
    def reach(self) -> int:
        """Elements of a channel's planes that the chunks read, as if the last had no end; 0 where
        they read no more than there are."""
        return 0

    @property
    def beyond(self) -> int:
        """Elements after the last plane that are read."""
        return max(0, self.reach - self.stride)

    @property
    def passes(self) -> int:
        """Passes over the chunks of a tile, or the tiles of a chunk, each of which adds up some of
        the input channels."""
        return 1

    @property
    def tiles_first(self) -> bool:
        """Whether all chunks of a tile come before the next tile, not the reverse."""
        return False

    @abstractmethod
    def compute(self, place: Place, weights: Var, source: Var) -> Stmt:
        """The results of one tile."""

    @property
    def direct(self) -> bool:
        """Whether the planes are the input itself."""
        return self.flat and self.operands.reads_image

    @property
    def stride(self) -> int:
        """Elements from the planes of one slice to the next; every channel has its slices."""
        return prod(self.conv.image) if self.direct else self.planes.phases * self.planes.plane

    @property
    def unit_elements(self) -> int:
        """Elements of the planes of one group of the input."""
        return self.conv.channels * self.conv.slices * self.stride

    @property
    def tiles(self) -> int:
        """Tiles of output channels in a group."""
        return ceil_div(self.conv.filters, self.width)

    @property
    def units(self) -> int:
        """Groups of all images."""
        return self.conv.images * self.conv.groups

    @property
    def local(self) -> bool:
        """Whether every block fills the planes of its groups, one group after another."""
        room = at_hint(self.unit_elements) * 4 <= LOCAL_PLANES_BYTES and not self.conv.depth
        return not self.direct and at_hint(self.units) >= LOCAL_UNITS and room

    def launches(self, weights: Var) -> Stmt:
        """All launches: fill the planes unless they are the input, then convolve."""
        if self.direct:
            number = self.around.read_number(0)
            assert number is not None
            return self.convolve(weights, self.around.reads[number])
        if self.local:
            return self._convolve_locally(weights)
        source, fill = self.fill(self.beyond)
        return sequence([*fill, self.convolve(weights, source)])

    def fill(self, beyond: int) -> tuple[Var, list[Stmt]]:
        """A workspace for the planes and what is read `beyond` the last one, and its launch."""
        conv = self.planes.conv
        elements = conv.batch * conv.groups * self.unit_elements
        workspace = buffer("planes", elements + beyond, self.operands.dtype)
        fill = self._writer(workspace).fill(self.stride, beyond)
        return workspace, [tirx.AllocBuffer(workspace), fill]

    def convolve(self, weights: Var, source: Var) -> Stmt:
        """The launch that convolves planes that are there."""
        extents = [self.units, self.chunks, self.tiles]
        order = [0, 2, 1] if self.tiles_first else [0, 1, 2]
        extents = [extents[axis] for axis in order]
        allocated, sums = self._partial_sums()
        blocks = split_blocks(self.slots * at_hint(self.units), *map(at_hint, extents))

        def body(runs: list[IndexRun], _: Any) -> Stmt:
            parts = runs[order[1]], runs[order[2]]

            def unit(number: Any) -> Stmt:
                planes = self._input_unit(number) * self.unit_elements
                return self._unit(number, planes, parts, (weights, source), sums)

            return runs[0].loop("unit", unit)

        return sequence([*allocated, block_runs(blocks, extents, body)])

    def _partial_sums(self) -> tuple[list[Stmt], Var | None]:
        """The workspace of the sums that passes add to, if there are several."""
        if self.passes == 1:
            return [], None
        sums = buffer("sums", self.kept_tiles * self.sums_elements, self.operands.dtype)
        return [tirx.AllocBuffer(sums)], sums

    @property
    def kept_tiles(self) -> int:
        """The register tiles whose sums are kept between passes."""
        return self.units * self.tiles * self.chunks

    @property
    def sums_elements(self) -> int:
        """The sums of one register tile."""
        return self.tile.rows * self.tile.vectors * self.lanes

    def _convolve_locally(self, weights: Var) -> Stmt:
        """The launch that fills planes and convolves them while they are in the cache."""
        blocks = split_blocks(self.slots * at_hint(self.units), at_hint(self.units))
        own = ceil_div(self.unit_elements + self.beyond, LINE) * LINE
        count = block_count(blocks, (self.units,))
        workspace = buffer("planes", count * own, self.operands.dtype)
        whole = IndexRun.whole(self.chunks), IndexRun.whole(self.tiles)

        def body(runs: list[IndexRun], number: Any) -> Stmt:
            base = number * own

            def unit(index: Any) -> Stmt:
                filled = self._fill_unit(index, base, workspace)
                parts = self._unit(index, base, whole, (weights, workspace))
                return sequence([filled, parts])

            cleared = self._cleared(base, workspace)
            return sequence([*cleared, runs[0].loop("unit", unit)])

        return sequence([tirx.AllocBuffer(workspace), block_runs(blocks, (self.units,), body)])

    def _cleared(self, base: Any, workspace: Var) -> list[Stmt]:
        """Clear what no unit of a block writes: what is read after the planes, and of sizes that a
        run decides the padding in them."""
        clear = self._writer(workspace).clear
        if is_number(self.unit_elements):
            return clear(base + self.unit_elements, self.beyond)
        return clear(base, self.unit_elements + self.beyond)

    def _fill_unit(self, number: Any, base: Any, workspace: Var) -> Stmt:
        image, group = self._split(number)

        def channel(c: Any) -> Stmt:
            lead = [image, group * self.conv.channels + c]
            writer = replace(self._writer(workspace), padded=is_number(self.unit_elements))
            return writer.fill_channel(lead, base + c * self.stride)

        return loop_over("plane", self.conv.channels, channel)

    def _writer(self, workspace: Var) -> PlaneWriter:
        return PlaneWriter(self.planes, self.operands, workspace, self.lanes)

    def _split(self, unit: Any) -> tuple[Any, Any]:
        groups = self.conv.groups
        return (unit // groups, unit % groups) if groups > 1 else (unit, 0)

    def _input_unit(self, unit: Any) -> Any:
        """The group of the input that a group of an image of the result reads."""
        if not self.conv.depth:
            return unit
        image, group = self._split(unit)
        return image // self.conv.depth.output * self.conv.groups + group

    def _unit(
        self,
        number: Any,
        planes: Any,
        runs: tuple[IndexRun, IndexRun],
        operands: tuple[Var, Var],
        sums: Var | None = None,
    ) -> Stmt:
        """The chunks and tiles, two runs, of one group of one image, by weights and planes."""
        image, group = self._split(number)
        chunks, tiles = runs

        def compute(chunk: Any, tile: Any, part: ChannelRun | None) -> Stmt:
            place = Place(
                image=image, group=group, chunk=chunk, tile=tile, planes=planes, part=part
            )
            return self.compute(place, *operands)

        def all_chunks(tile: Any, part: ChannelRun | None) -> Stmt:
            return chunks.loop("chunk", lambda chunk: compute(chunk, tile, part))

        def all_tiles(chunk: Any, part: ChannelRun | None) -> Stmt:
            return tiles.loop("tile", lambda tile: compute(chunk, tile, part))

        if not self.tiles_first:
            return chunks.loop("chunk", lambda c: self._in_passes(sums, partial(all_tiles, c)))
        return tiles.loop("tile", lambda t: self._in_passes(sums, partial(all_chunks, t)))

    def _in_passes(self, sums: Var | None, body: Callable[[ChannelRun | None], Stmt]) -> Stmt:
        """A loop over the passes, each with its share of the input channels."""
        if sums is None:
            return body(None)
        channels = self.conv.channels
        run = ceil_div(channels, self.passes)

        def one(number: Any) -> Stmt:
            return body(ChannelRun(number, number * run, run_length(number, run, channels), sums))

        return loop_over("pass", self.passes, one)

    def _reduce(
        self,
        place: Place,
        tile: RegisterTile,
        tap: Callable[[Summand, Any, Column], Stmt],
        sums: Var,
        at: Places,
    ) -> Stmt:
        """The sums over channels and kernel taps; `tap` gives the step of (summand, row, column).

        They are added to those of the passes before, and long ones in runs of channels.
        """
        height, width = self.conv.kernel
        stride = self.conv.strides[1]
        run = ceil_div(UNROLLED_COLUMNS, stride) * stride

        def row(channel: Summand, i: Any) -> Stmt:
            if width <= 2 * run:
                return sequence([tap(channel, i, Column(j)) for j in range(width)])
            whole = width - width % run

            def columns(number: Any) -> Stmt:
                return sequence([tap(channel, i, Column(j, number * run)) for j in range(run)])

            rest = [tap(channel, i, Column(j)) for j in range(whole, width)]
            return sequence([loop_over("kernel_column", width // run, columns), *rest])

        def channel(c: Summand) -> Stmt:
            if height * width <= UNROLLED_TAPS or not self._rows_are_regular():
                return sequence([row(c, i) for i in range(height)])
            return loop_over("kernel_row", height, lambda i: row(c, i))

        if not height * width:
            return sequence([*tile.start(), tile.store(sums, at)])
        return self._for_summands(place, tile, channel, sums, at)

    def _for_summands(
        self,
        place: Place,
        tile: RegisterTile,
        body: Callable[[Summand], Stmt],
        sums: Var,
        at: Places,
    ) -> Stmt:
        """The sums over what a result of a place reads: the taps inside the depth, all channels."""
        part = place.part
        kept = tile.store(sums, at)
        conv = self.conv
        before, channels = (part.first, part.channels) if part else (0, conv.channels)
        run = max(1, run_of(self._terms) // prod(conv.kernel))

        def in_order(tap: Any) -> Stmt:
            return loop_over("channel", channels, lambda c: body(Summand(before + c, tap)))

        def in_runs(tap: Any) -> Stmt:
            def one(channel: Any) -> Stmt:
                return body(Summand(channel, tap))

            return tile.add_runs("channel", conv.channels, run, one, sums, at)

        if part:
            added = tirx.IfThenElse(part.number > 0, sequence(tile.add(sums, at)), None)
            return sequence([*tile.start(), self._for_slices(place, in_order), added, kept])
        if self._is_long:
            return sequence([*tile.start(), kept, self._for_slices(place, in_runs)])
        return sequence([*tile.start(), self._for_slices(place, in_order), kept])

    @property
    def _terms(self) -> int:
        """The terms of a sum at most."""
        return self.conv.summands * prod(self.conv.kernel)

    @property
    def _is_long(self) -> bool:
        """Whether sums of floats have too many terms for one accumulator."""
        return self.operands.arithmetic is FLOAT32 and run_of(self._terms) < self._terms

    @property
    def most_channels(self) -> int:
        """The most channels of a pass, each of which adds up its sums from zero."""
        terms = self.conv.depth_taps * prod(self.conv.kernel)
        return max(1, LONG_SUM // terms) if self._is_long else self.conv.channels

    def _for_slices(self, place: Place, all_channels: Callable[[Any], Stmt]) -> Stmt:
        """A loop over the taps inside the depth that a result of a place reads."""
        depth = self.conv.depth
        if not depth:
            return all_channels(0)
        slice_ = place.image % depth.output
        first = depth.first_tap(slice_)
        taps = depth.last_tap(slice_) - first
        return loop_over("slice", taps, lambda k: all_channels(first + k))

    def _rows_are_regular(self) -> bool:
        phases = self.planes.row_phases
        return len(phases) in (1, self.conv.strides[0])

    def _shift(self, row: Any, column: Column) -> Any:
        """The shift of a kernel tap; the row may be a loop variable."""
        if self.flat:
            return 0
        before = column.before * self.conv.dilations[1] // self.conv.strides[1]
        shift = self.planes.shift(row, column.number, self.conv.dilations)
        return shift + before + self.taps.origin

    @property
    def last_shift(self) -> int:
        """The largest shift of any tap."""
        height, width = self.conv.kernel
        columns = [Column(j) for j in range(width)]
        return max((self._shift(i, j) for i in range(height) for j in columns), default=0)

    def _weight(self, place: Place, summand: Summand, row: Any, column: Column) -> Any:
        """Where the weights of a tile's channels begin for one tap."""
        taps = self.taps
        tile = place.group * self.tiles + place.tile
        head = (tile + 1) * self.operands.head_rows * self.width if self.operands.head_rows else 0
        line, number = taps.rows[0] + row * taps.rows[1], column.before + column.number
        tap = line * taps.kernel[1] + taps.columns[0] + number * taps.columns[1]
        channel = summand.tap * self.conv.channels + summand.channel
        row = (tile * self.conv.summands + channel) * prod(taps.kernel) + tap
        return head + row * self.width

    def _head(self, place: Place) -> Any:
        """Where the weights of a tile's channels begin."""
        tile = place.group * self.tiles + place.tile
        rows = self.conv.summands * prod(self.taps.kernel) + self.operands.head_rows
        return tile * rows * self.width

    def _new_tile(self, rows: int, vectors: int) -> RegisterTile:
        return RegisterTile(rows, vectors, self.lanes, self.operands.arithmetic)

    def channel_start(self, place: Place, summand: Summand) -> Any:
        """Where the planes of a slice of a channel begin."""
        depth, plane = self.conv.depth, summand.channel
        if depth:
            own = depth.place(place.image % depth.output, summand.tap)
            plane = plane * depth.image + own
        return place.planes + plane * self.stride

    def lead(self, place: Place, number: Any) -> list[Any]:
        """The first indices of a result: image, channel, and in three dimensions the slice."""
        if not self.conv.depth:
            return [place.image, number]
        slices = self.conv.depth.output
        return [place.image // slices, number, place.image % slices]

    def _for_channels(
        self, place: Place, weights: Var, body: Callable[[Any, Any, Any], Stmt]
    ) -> Stmt:
        """A loop over a tile's channels; `body` gets the channel's number in the tile, its number
        in the result and what is to be added to its sums."""
        filters = self.conv.filters

        def one(i: Any) -> Stmt:
            own = place.tile * self.width + i
            number = place.group * filters + own
            added = self.operands.bias(number, weights, self._head(place) + i)
            statement = self._with_added(added, lambda once: body(i, number, once))
            return (
                tirx.IfThenElse(own < filters, statement, None)
                if filters % self.width
                else statement
            )

        return loop_over("filter", self.width, one)

    def _prefetched(self, place: Place, run: int, positions: int) -> list[Stmt]:
        """Prefetch what the epilogue of a chunk's positions touches, a plane apart; chunks are a
        `run` of positions."""
        if not self.flat or positions < 2:
            return []
        first = place.chunk * run

        def channel(i: Any) -> Stmt:
            own = tirx.min(place.tile * self.width + i, tirx.const(self.conv.filters - 1, "int32"))
            number = place.group * self.conv.filters + own
            return prefetch(self.around, self.lead(place, number), first, positions)

        return [loop_over("filter", self.width, channel)]

    def _with_added(self, added: Any, body: Callable[[Any], Stmt]) -> Stmt:
        """A channel's statement; a summand of the weights' head is computed before its loops."""
        if not self.operands.head_rows:
            return body(added)
        once, allocate = scratch("added", 1, self.operands.dtype)
        kept = tirx.BufferStore(once, added, [0])
        return sequence([allocate, kept, body(tirx.BufferLoad(once, [0]))])

    def _store(self, place: Place, number: Any, row: Any, column: Any, value: Any) -> Stmt:
        lead = self.lead(place, number)
        if self.flat:
            return self.around.store_flat(value, lead, column)
        taps = self.taps
        at = [
            taps.result_rows[0] + row * taps.result_rows[1],
            taps.result_columns[0] + column * taps.result_columns[1],
        ]
        return self.around.store(value, [*lead, *at[-(self.around.rank - len(lead)) :]])
