"""The launches of a Winograd convolution; the package shows them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import Convolution
from compiler.kernels.cpu.operands import FloatOperands
from compiler.kernels.cpu.prefetch import prefetch_line
from compiler.kernels.cpu.templates.winograd.image import ImageTransform
from compiler.kernels.cpu.templates.winograd.layout import ChunkPlace, Region, WinogradLayout
from compiler.kernels.cpu.templates.winograd.results import ResultTransform
from compiler.kernels.cpu.tiling import BLOCK_SLOTS, split_blocks
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import RegisterTile, block_loops, buffer, loop_over, sequence

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
        layout, slots = self.layout, self.slots * self.conv.batch
        if layout.local:
            few = min(slots, LOCAL_BLOCKS * BLOCK_SLOTS)
            return self._convolve_locally(weights, split_blocks(few, layout.chunks))
        extents = (layout.chunks, self.conv.channels)
        image = buffer("image", layout.chunks * layout.chunk_elements)
        fill = self._fill(image, extents, split_blocks(slots / IMAGE_SHARE, *extents))
        extents = (layout.chunks, layout.groups)
        multiply = self._multiply_all(weights, image, extents, split_blocks(slots, *extents))
        return sequence([tirx.AllocBuffer(image), *fill, *multiply])

    def _convolve_locally(self, weights: Var, blocks: tuple[int, ...]) -> Stmt:
        """The launch whose blocks transform the image of a chunk and multiply it at once."""
        layout = self.layout
        image, sums, rows = (
            buffer(name, blocks[0] * elements)
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

    def _fill(self, image: Var, extents: tuple[int, int], blocks: tuple[int, ...]) -> list[Stmt]:
        """The launch that transforms the images of all chunks."""
        layout = self.layout
        rows = buffer("rows", prod(blocks) * layout.row_elements)
        transform = ImageTransform(layout, self.operands, rows)

        def channel(place: ChunkPlace, number: Any) -> Stmt:
            return transform.channel(place, number, self._image(image, place))

        launch = self._launch(extents, blocks, channel, transform.start)
        return [tirx.AllocBuffer(rows), launch]

    def _multiply_all(
        self, weights: Var, image: Var, extents: tuple[int, int], blocks: tuple[int, ...]
    ) -> list[Stmt]:
        """The launch that multiplies the transformed images of all chunks."""
        layout = self.layout
        sums = buffer("sums", prod(blocks) * layout.sums_elements)

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
        runs = [ceil_div(extent, count) for extent, count in zip(extents, blocks, strict=True)]
        count = self.layout.image_chunks

        def block(firsts: list[Any], lengths: list[Any]) -> Stmt:
            own = firsts[0] // runs[0] * blocks[1] + firsts[1] // runs[1]

            def chunk(i: Any) -> Stmt:
                number = firsts[0] + i
                place = ChunkPlace(image=number // count, chunk=number % count, block=own)
                return loop_over("second", lengths[1], lambda j: body(place, firsts[1] + j))

            chunks = loop_over("chunk", lengths[0], chunk)
            return chunks if start is None else sequence([start(own), chunks])

        return block_loops(blocks, extents, block)

    def _group(
        self, place: ChunkPlace, group: Any, weights: Var, image: Region, sums: Region
    ) -> Stmt:
        """The results of a chunk and a group of filters."""
        layout = self.layout
        tile = layout.tile

        def multiply(point: Any, step: Any, number: Any) -> Stmt:
            run = (group * layout.points + point) * layout.group_tiles + number
            panel = image.after((step * layout.points + point) * layout.point_pitch)
            own = number * (tile.rows * layout.run) + step * layout.panel
            target = sums.after(point * layout.sums_pitch + own)
            return self._multiply(
                Region(weights, run * (self.conv.channels * tile.rows)), panel, target
            )

        def panel(point: Any, step: Any) -> Stmt:
            return loop_over("tile", layout.group_tiles, lambda t: multiply(point, step, t))

        def point(number: Any) -> Stmt:
            return loop_over("panel", tile.steps, lambda step: panel(number, step))

        finish = ResultTransform(layout, self.around, self.operands)
        return sequence(
            [
                loop_over("point", layout.points, point),
                finish.group(place, group, sums, weights),
            ]
        )

    def _multiply(self, weights: Region, image: Region, target: Region) -> Stmt:
        """The sums of one register tile at one point, over all channels."""
        layout = self.layout
        rows, lanes = layout.tile.rows, layout.lanes
        registers = RegisterTile(rows, layout.tile.vectors, lanes)

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
