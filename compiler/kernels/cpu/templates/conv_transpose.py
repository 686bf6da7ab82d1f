"""Transposed convolution as one convolution of stride one for each output phase.

launch 0: pad the input into planes (see `planes`)
launch 1 ..: for each remainder (a, b) of output rows and columns modulo the strides:
  convolve the planes with the taps that reach these elements (see `conv2d`, lanes along the
  image), and store the results `stride` elements apart
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.cpu.convolution import Convolution, TransposedPhase, transposed_phases
from compiler.kernels.cpu.core import Core, core_of
from compiler.kernels.cpu.operands import FloatOperands
from compiler.kernels.cpu.templates.anchors import (
    AnchorTemplate,
    Loops,
    Ways,
    elementwise_context,
    widening,
)
from compiler.kernels.cpu.templates.conv2d import (
    constant_weights,
    packing_step,
    read_convolution,
)
from compiler.kernels.cpu.templates.image_lanes import ImageLanes
from compiler.kernels.cpu.templates.places import Taps
from compiler.kernels.cpu.tiling import image_tiles
from compiler.kernels.group import Group, Node
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import sequence
from compiler.target.target import CpuTarget

MOST_PHASES = 16
"""Most output phases, each of which is separate code."""


class TransposedConvolution(AnchorTemplate[None]):
    """A group around a float32 transposed convolution of constant weights, in up to two axes."""

    name = "transposed_convolution"
    types = ("ConvTranspose",)

    def read(self, group: Group, anchor: Node[int], target: CpuTarget) -> Ways[None] | None:
        """A nest for each output phase, if there are few."""
        transposed = read_transposed(group, anchor)
        if transposed is None or len(transposed.phases) > MOST_PHASES:
            return None
        around = elementwise_context(group, anchor)
        if around is None:
            return None
        nests = phase_nests(transposed, around, core_of(target))
        weight = group.packable(anchor.operand(1))
        assert weight is not None, "the template takes constant weights"
        packing = transposed_weight_packing(nests[0], transposed.kernel)
        packing = widening(group, weight) + packing
        loops = Loops(lambda: launches(nests, around.reads[weight]), {weight: packing})
        flops = 2 * sum(nest.conv.multiplications for nest in nests)
        slots = transposed.batch * transposed.groups * sum(nest.slots for nest in nests)
        return Ways(around=around, flops=flops, slots={None: slots}, loops=lambda _: loops)


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution; `axes` are the output phases of rows and of columns."""

    batch: int
    groups: int
    channels: int
    filters: int
    image: tuple[int, int]
    kernel: tuple[int, int]
    axes: tuple[list[TransposedPhase], list[TransposedPhase]]

    @property
    def phases(self) -> list[tuple[TransposedPhase, TransposedPhase]]:
        """All phases (of rows, of columns)."""
        return list(product(*self.axes))

    @property
    def lowest(self) -> tuple[int, int]:
        """The first input offset that any phase reads, for rows and columns."""
        rows, columns = (min((p.offset for p in axis if p.taps), default=0) for axis in self.axes)
        return rows, columns

    @property
    def frame(self) -> Convolution:
        """A convolution of stride one whose planes serve all phases."""
        lowest = self.lowest
        reach = [
            max((p.offset + (p.taps - 1) * p.spacing for p in axis if p.taps), default=low) - low
            for axis, low in zip(self.axes, lowest, strict=True)
        ]
        counts = [max(p.count for p in axis) for axis in self.axes]
        return self.convolution(
            (reach[0] + 1, reach[1] + 1), (1, 1), (-lowest[0], -lowest[1]), (counts[0], counts[1])
        )

    def convolution(
        self,
        kernel: tuple[int, int],
        dilations: tuple[int, int],
        pads: tuple[int, int],
        output: tuple[int, int],
    ) -> Convolution:
        """A convolution of stride one over the same input."""
        return Convolution(
            batch=self.batch,
            groups=self.groups,
            channels=self.channels,
            filters=self.filters,
            image=self.image,
            kernel=kernel,
            strides=(1, 1),
            dilations=dilations,
            pads=pads,
            output=output,
        )


def read_transposed(group: Group, anchor: Node[int]) -> Transposed | None:
    """The transposed convolution of an operator, if the template can take it."""
    if not constant_weights(group, anchor) or not anchor.attributes["finite"]:
        return None
    conv = read_convolution(group, anchor)  # from the result to the input
    along = zip(conv.strides, conv.dilations, conv.kernel, conv.pads, conv.output, strict=True)
    rows, columns = (transposed_phases(*axis) for axis in along)
    return Transposed(
        batch=conv.batch,
        groups=conv.groups,
        channels=conv.filters,
        filters=conv.channels,
        image=conv.image,
        kernel=conv.kernel,
        axes=(rows, columns),
    )


def phase_nests(transposed: Transposed, around: FusionContext, core: Core) -> list[ImageLanes]:
    """One nest for each output phase, all of one tile, as they share the packed weights."""
    frame, lowest = transposed.frame, transposed.lowest
    tile, slots = image_tiles(frame, core)[0]
    nests: list[ImageLanes] = []
    for row, column in transposed.phases:
        conv = transposed.convolution(
            (row.taps, column.taps),
            (row.spacing, column.spacing),
            (0, 0),
            (row.count, column.count),
        )
        origin = (row.offset - lowest[0]) * frame.planes.pitch + column.offset - lowest[1]
        taps = Taps(
            kernel=transposed.kernel,
            rows=(row.first, row.step),
            columns=(column.first, column.step),
            result_rows=(row.phase, len(transposed.axes[0])),
            result_columns=(column.phase, len(transposed.axes[1])),
            origin=max(0, origin),
        )
        share = slots * row.taps * column.taps / prod(frame.kernel)
        nests.append(
            ImageLanes(
                conv=conv,
                around=around,
                tile=tile,
                lanes=core.lanes,
                flat=False,
                slots=share,
                planes=frame.planes,
                taps=taps,
                operands=FloatOperands(around),
            )
        )
    return nests


def launches(nests: Sequence[ImageLanes], weights: Var) -> Stmt:
    """All launches: fill the planes once, then one for each phase."""
    source, fill = nests[0].fill(max(nest.beyond for nest in nests))
    return sequence([*fill, *[nest.convolve(weights, source) for nest in nests]])


def transposed_weight_packing(nest: ImageLanes, kernel: tuple[int, int]) -> str:
    """Weights as tiles of output channels, innermost the channels of a tile."""
    conv = nest.conv
    missing = nest.tiles * nest.width - conv.filters
    steps = [
        packing_step("reshape", [conv.groups, conv.channels, conv.filters, *kernel]),
        packing_step("pad", [0, 0, missing, 0, 0]),
        packing_step("reshape", [conv.groups, conv.channels, nest.tiles, nest.width, *kernel]),
        packing_step("transpose", [0, 2, 1, 4, 5, 3]),
    ]
    return "|".join(steps)
