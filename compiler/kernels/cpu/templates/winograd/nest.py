"""The launches of a Winograd convolution; the package shows them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.cpu.convolution import Convolution
from compiler.kernels.cpu.operands import FloatOperands
from compiler.kernels.cpu.prefetch import prefetch_line
from compiler.kernels.cpu.templates.winograd.image import ImageTransform
from compiler.kernels.cpu.templates.winograd.layout import ChunkPlace, Region, WinogradLayout
from compiler.kernels.cpu.templates.winograd.results import ResultTransform
from compiler.kernels.cpu.tiling import BLOCK_SLOTS, split_blocks
from compiler.kernels.sizes import at_hint
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import RegisterTile, buffer, loop_over, sequence
from compiler.kernels.tir.runs import IndexRun, block_count, block_runs

WEIGHTS_AHEAD = 2048
"""Elements between the weights that are multiplied and those that are prefetched: two pages, at
whose ends the cores' look-ahead stops."""

LOCAL_BLOCKS = 16
"""About the most blocks that transform images themselves, each into separate memory."""

IMAGE_SHARE = 8
"""How many times the work of a convolution is that of transforming its image, about."""


@dataclass(frozen=True)
class Winograd:
    """A convolution with its layout; `slots` is the estimated cost of one image."""

    conv: Convolution
    around: FusionContext
    operands: FloatOperands
    layout: WinogradLayout
    slots: float

    @property
    def packing(self) -> str:
        """The packing of the weights."""
        return self.layout.packing

    def launches(self, weights: Var) -> Stmt:
        """All launches."""
        layout = self.layout
        slots = self.slots * at_hint(self.conv.batch)
        if layout.local:
            few = min(slots, LOCAL_BLOCKS * BLOCK_SLOTS)
            return self._convolve_locally(weights, split_blocks(few, layout.chunk_count))
        chunks, channels = layout.chunk_count, self.conv.channels
        image = buffer("image", layout.chunks * layout.chunk_elements)
        fill = self._fill(image, split_blocks(slots / IMAGE_SHARE, chunks, channels))
        blocks = split_blocks(slots, chunks, layout.groups)
        multiply = self._multiply_all(weights, image, blocks)
        return sequence([tirx.AllocBuffer(image), *fill, *multiply])

    def _convolve_locally(self, weights: Var, blocks: tuple[int, ...]) -> Stmt:
        """The launch whose blocks transform the image of a chunk and multiply it at once."""
        layout = self.layout
        count = block_count(blocks, (layout.chunks,))
        image, sums, rows = (
            buffer(name, count * elements)
            for name, elements in (
                ("image", layout.chunk_elements),
                ("sums", layout.sums_elements),
                ("rows", layout.row_elements),
            )
        )
        transform = ImageTransform(layout, self.operands, rows)

        def chunk(place: ChunkPlace, _: Any) -> Stmt:
            own = Region(image, place.block * layout.chunk_elements)
            fill = loop_over(
                "channel", self.conv.channels, lambda c: transform.channel(place, c, own)
            )
            own_sums = Region(sums, place.block * layout.sums_elements)
            groups = loop_over(
                "group", layout.groups, lambda g: self._group(place, g, weights, own, own_sums)
            )
            return sequence([fill, groups])

        launch = self._launch((layout.chunks, 1), (blocks[0], 1), chunk, transform.start)
        return sequence([*map(tirx.AllocBuffer, (image, sums, rows)), launch])

    def _fill(self, image: Var, blocks: tuple[int, ...]) -> list[Stmt]:
        """The launch that transforms the images of all chunks."""
        layout = self.layout
        extents = (layout.chunks, self.conv.channels)
        rows = buffer("rows", block_count(blocks, extents) * layout.row_elements)
        transform = ImageTransform(layout, self.operands, rows)

        def channel(place: ChunkPlace, number: Any) -> Stmt:
            return transform.channel(place, number, self._image(image, place))

        launch = self._launch(extents, blocks, channel, transform.start)
        return [tirx.AllocBuffer(rows), launch]

    def _multiply_all(self, weights: Var, image: Var, blocks: tuple[int, ...]) -> list[Stmt]:
        """The launch that multiplies the transformed images of all chunks."""
        layout = self.layout
        extents = (layout.chunks, layout.groups)
        sums = buffer("sums", block_count(blocks, extents) * layout.sums_elements)

        def group(place: ChunkPlace, number: Any) -> Stmt:
            own = Region(sums, place.block * layout.sums_elements)
            return self._group(place, number, weights, self._image(image, place), own)

        return [tirx.AllocBuffer(sums), self._launch(extents, blocks, group)]

    def _image(self, image: Var, place: ChunkPlace) -> Region:
        """The transformed image of a chunk where all have one."""
        number = place.image * self.layout.image_chunks + place.chunk
        return Region(image, number * self.layout.chunk_elements)

    def _launch(
        self,
        extents: tuple[int, int],
        blocks: tuple[int, ...],
        body: Callable[[ChunkPlace, Any], Stmt],
        start: Callable[[Any], Stmt] | None = None,
    ) -> Stmt:
        """A launch over chunks and a second axis, whose numbers `body` gets.

        Each block does what it needs by its number at its `start`.
        """
        layout = self.layout

        def block(runs: list[IndexRun], own: Any) -> Stmt:
            def chunk(number: Any) -> Stmt:
                image = layout.image_of(number)
                part = layout.chunk_of(number)
                place = ChunkPlace(image=image, chunk=part, block=own)
                return runs[1].loop("second", lambda second: body(place, second))

            chunks = runs[0].loop("chunk", chunk)
            return chunks if start is None else sequence([start(own), chunks])

        return block_runs(blocks, extents, block)

    def _group(
        self, place: ChunkPlace, group: Any, weights: Var, image: Region, sums: Region
    ) -> Stmt:
        """The results of a chunk and a group of filters."""
        layout = self.layout
        tile = layout.tile

        def multiply(vectors: int, point: Any, step: Any, number: Any) -> Stmt:
            run = (group * layout.points + point) * layout.group_tiles + number
            panel = image.after((step * layout.points + point) * layout.point_pitch)
            own = number * (tile.rows * layout.run) + step * layout.panel
            target = sums.after(point * layout.sums_pitch + own)
            own_weights = Region(weights, run * (self.conv.channels * tile.rows))
            return self._multiply(own_weights, panel, target, vectors)

        def panel(vectors: int, point: Any, step: Any) -> Stmt:
            one = partial(multiply, vectors, point, step)
            return loop_over("tile", layout.group_tiles, one)

        def point(vectors: int, number: Any) -> Stmt:
            return loop_over("panel", tile.steps, partial(panel, vectors, number))

        def points(vectors: int) -> Stmt:
            return loop_over("point", layout.points, partial(point, vectors))

        finish = ResultTransform(layout, self.around, self.operands)
        finished = finish.group(place, group, sums, weights)
        return sequence([self._by_vectors(place, points), finished])

    def _by_vectors(self, place: ChunkPlace, body: Callable[[int], Stmt]) -> Stmt:
        """The body for as many vectors as a chunk has."""
        most = self.layout.tile.vectors
        own = self.layout.vectors_of(place)
        if isinstance(own, int):
            return body(most)
        chosen = body(1)
        for vectors in range(2, most + 1):
            chosen = tirx.IfThenElse(own >= vectors, body(vectors), chosen)
        return chosen

    def _multiply(self, weights: Region, image: Region, target: Region, vectors: int) -> Stmt:
        """The sums of one register tile at one point, over all channels."""
        layout = self.layout
        rows, lanes = layout.tile.rows, layout.lanes
        registers = RegisterTile(rows, vectors, lanes)

        def step(channel: Any) -> Stmt:
            own = weights.after(channel * rows)
            multiply = registers.step(
                lambda i: tirx.BufferLoad(weights.buffer, [own.start + i]),
                lambda j: image.vector(channel * layout.panel + j * lanes, lanes),
            )
            return sequence([self._prefetched(own), multiply])

        def place(i: int, j: int) -> Any:
            return target.start + i * layout.run + j * lanes

        return registers.sum_up("channel", self.conv.channels, step, target.buffer, place)

    def _prefetched(self, weights: Region) -> Stmt:
        """Prefetch weights that are read soon: those of the layers of a network come from far."""
        layout = self.layout
        filters = layout.groups * layout.group_filters
        last = tirx.const(filters * self.conv.channels * layout.points - 1, "int32")
        place = tirx.min(weights.start + WEIGHTS_AHEAD, last)
        return prefetch_line(weights.buffer, [place])
