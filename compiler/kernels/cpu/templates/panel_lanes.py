"""The loop nest of a convolution of one tap whose image is copied: a panel for each chunk.

A panel holds the positions of one chunk for all channels, one after another, as BLAS packs its
operands: tiles of output channels read it from start to end, out of the first-level cache. Where
chunks are many, each block fills a panel, computes all its tiles and fills the next.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import LINE
from compiler.kernels.cpu.planes import BLOCK_ELEMENTS, PlaneWriter
from compiler.kernels.cpu.templates.image_lanes import ImageLanes
from compiler.kernels.cpu.templates.places import ChannelRun, Place, Summand
from compiler.kernels.cpu.tiling import split_blocks
from compiler.kernels.tir.loops import buffer, loop_over, sequence, vector_loop
from compiler.kernels.tir.runs import IndexRun, block_runs

LOCAL_CHUNKS = 16
"""From this many chunks on, blocks divide the chunks and fill their panels themselves."""


class PanelLanes(ImageLanes):
    """Lanes along positions of panels."""

    @property
    def direct(self) -> bool:
        return False

    @property
    def stride(self) -> int:
        return self.chunk_positions

    @property
    def unit_elements(self) -> int:
        return self.chunks * self.conv.channels * self.stride

    @property
    def reach(self) -> int:
        return 0

    @property
    def ends_exactly(self) -> bool:
        return False

    @property
    def local(self) -> bool:
        return self.conv.pointwise and self.chunks >= LOCAL_CHUNKS

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        if not self.local:
            return super().blocks
        return *split_blocks(self.slots * self.units, self.units, self.chunks), 1

    @property
    def chunk_lines(self) -> int:
        return ceil_div(self.chunk_positions, LINE)

    @property
    def advances(self) -> bool:
        return self.local and self.far and self.operands.image_number is not None

    def fill(self, beyond: int) -> tuple[Var, list[Stmt]]:
        """A workspace for the panels, and the launches that fill it.

        Of an image with strides or padding there are planes first.
        """
        count, panel = self.units * self.chunks, self.conv.channels * self.stride
        workspace = buffer("panels", count * panel, self.operands.dtype)
        blocks = (ceil_div(count, min(count, max(1, BLOCK_ELEMENTS // panel))),)
        before, element = self._source()

        def one(number: Any) -> Stmt:
            return self._fill_panel(number, element, workspace, number * panel)

        launch = block_runs(blocks, (count,), lambda runs, _: runs[0].loop("panel", one))
        return workspace, [*before, tirx.AllocBuffer(workspace), launch]

    def _convolve_locally(self, weights: Var) -> Stmt:
        """The launch whose blocks fill one panel after another, each for all tiles of channels."""
        extents = (self.units, self.chunks)
        blocks = self.blocks[:2]
        allocated, sums = self._partial_sums()
        panel = ceil_div(self.conv.channels * self.stride, LINE) * LINE
        workspace = buffer("panels", prod(blocks) * panel, self.operands.dtype)
        _, element = self._source()

        def body(runs: list[IndexRun], block: Any) -> Stmt:
            base = block * panel

            def chunk(unit: Any, number: Any) -> Stmt:
                image, group = self._split(unit)
                place = Place(image=image, group=group, chunk=number, tile=0, planes=base)
                position = unit * self.chunks + number
                fill = self._fill_panel(position, element, workspace, base)
                tiles = partial(self._tiles, place, weights, workspace)
                return sequence([fill, self._in_passes(sums, tiles)])

            return runs[0].loop("unit", lambda unit: runs[1].loop("chunk", partial(chunk, unit)))

        launch = block_runs(blocks, extents, body)
        return sequence([tirx.AllocBuffer(workspace), *allocated, launch])

    def _tiles(self, place: Place, weights: Var, source: Var, part: ChannelRun | None) -> Stmt:
        """The results of all tiles of output channels of a chunk."""

        def one(tile: Any) -> Stmt:
            return self.compute(replace(place, tile=tile, part=part), weights, source)

        return loop_over("tile", self.tiles, one)

    def _source(self) -> tuple[list[Stmt], Callable[[Any, Any], Any]]:
        """The launches that come before, and the element of a channel of any unit at a position."""
        conv = self.conv
        channels = self.conv.groups * self.conv.channels
        if conv.pointwise:
            width = conv.output[1]

            def element(channel: Any, position: Any) -> Any:
                lead = [channel // channels, channel % channels]
                return self.operands.element(lead, position // width, position % width)

            return [], element
        plane = conv.planes.plane
        planes = buffer("planes", self.units * conv.channels * plane, self.operands.dtype)
        fill = PlaneWriter(conv.planes, self.operands, planes, self.lanes).fill(plane)
        return [tirx.AllocBuffer(planes), fill], lambda channel, position: tirx.BufferLoad(
            planes, [channel * plane + position]
        )

    def _fill_panel(
        self, number: Any, element: Callable[[Any, Any], Any], workspace: Var, base: Any
    ) -> Stmt:
        """Write the panel of a chunk, counted over all units, from `base` on."""
        unit, chunk = number // self.chunks, number % self.chunks
        channels = self.conv.channels

        def channel(c: Any, positions: int) -> Stmt:
            start = base + c * self.stride

            def copy(x: Any) -> Stmt:
                value = element(unit * channels + c, chunk * self.stride + x)
                return tirx.BufferStore(workspace, value, [start + x])

            def clear(x: Any) -> Stmt:
                place = start + positions + x
                return tirx.BufferStore(workspace, self.operands.padding, [place])

            after = self.stride - positions
            cleared = [vector_loop(after, self.lanes, clear)] if after else []
            return sequence([vector_loop(positions, self.lanes, copy), *cleared])

        def panel(positions: int) -> Stmt:
            return loop_over("channel", channels, lambda c: channel(c, positions))

        rest = prod(self.conv.output) - (self.chunks - 1) * self.stride
        if self.chunks == 1 or rest == self.stride:
            return panel(rest)
        return tirx.IfThenElse(chunk < self.chunks - 1, panel(self.stride), panel(rest))

    def first_position(self, chunk: Any) -> Any:
        return 0

    def image_start(self, place: Place, summand: Summand) -> Any:
        unit = place.image * self.conv.groups + place.group
        return (unit * self.conv.channels + summand.channel) * prod(self.conv.output)

    def channel_start(self, place: Place, summand: Summand) -> Any:
        before = 0 if self.local else place.chunk * self.conv.channels
        return place.planes + (before + summand.channel) * self.stride
