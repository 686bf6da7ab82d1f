"""The loop nest of a convolution of one tap whose image is copied: a panel for each chunk.

A panel holds the positions of one chunk for all channels, one after another, as BLAS packs its
operands: tiles of output channels read it from start to end, out of the first-level cache.
"""

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.templates.image_lanes import ImageLanes
from compiler.kernels.cpu.templates.nests import Place
from compiler.kernels.cpu.templates.planes import BLOCK_ELEMENTS, fill_planes
from compiler.kernels.tir.loops import block_loops, buffer, loop_over, sequence, vector_loop


class PanelLanes(ImageLanes):
    """Lanes along positions of panels."""

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
        return False

    def fill(self, reach: int) -> tuple[Var, list[Stmt]]:
        """A workspace for the panels, and the launches that fill it.

        Of an image with strides or padding there are planes first.
        """
        count, panel = self.units * self.chunks, self.conv.channels * self.stride
        workspace = buffer("panels", count * panel, self.operands.dtype)
        blocks = (ceil_div(count, min(count, max(1, BLOCK_ELEMENTS // panel))),)
        before, element = self._source()

        def run(firsts: list[Any], lengths: list[Any]) -> Stmt:
            def one(i: Any) -> Stmt:
                return self._fill_panel(firsts[0] + i, element, workspace)

            return loop_over("panel", lengths[0], one)

        launch = block_loops(blocks, (count,), run)
        return workspace, [*before, tirx.AllocBuffer(workspace), launch]

    def _source(self) -> tuple[list[Stmt], Callable[[Any, Any], Any]]:
        """The launches that come before, and the element of a channel of any unit at a position."""
        conv, channels = self.conv, self.conv.groups * self.conv.channels
        if conv.pointwise:
            width = conv.output[1]

            def element(channel: Any, position: Any) -> Any:
                lead = [channel // channels, channel % channels]
                return self.operands.element(lead, position // width, position % width)

            return [], element
        plane = conv.planes.plane
        planes = buffer("planes", self.units * conv.channels * plane, self.operands.dtype)
        fill = fill_planes(conv, self.operands, planes, plane, self.lanes)
        return [tirx.AllocBuffer(planes), fill], lambda channel, position: tirx.BufferLoad(
            planes, [channel * plane + position]
        )

    def _fill_panel(self, number: Any, element: Callable[[Any, Any], Any], workspace: Var) -> Stmt:
        unit, chunk = number // self.chunks, number % self.chunks
        channels = self.conv.channels

        def channel(c: Any, positions: int) -> Stmt:
            start = (number * channels + c) * self.stride

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

    def channel_start(self, place: Place, channel: Any) -> Any:
        return place.planes + (place.chunk * self.conv.channels + channel) * self.stride
