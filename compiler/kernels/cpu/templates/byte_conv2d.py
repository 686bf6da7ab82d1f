"""Convolution of bytes: the nests of `conv2d` on words of four channels.

The planes of four channels are one plane of words; the last word of a group is filled with zeros,
as are its weights. Padding is the zero point, so that at the image's border, too, the sum of the
weights times the zero point is what a result has too much.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var

from compiler.kernels.cpu.convolution import Convolution
from compiler.kernels.cpu.core import core_of
from compiler.kernels.cpu.machine import second_cache_bytes
from compiler.kernels.cpu.templates.anchors import AnchorTemplate, Loops, Ways, elementwise_context
from compiler.kernels.cpu.templates.channel_lanes import ChannelLanes
from compiler.kernels.cpu.templates.conv2d import packing_step, read_convolution
from compiler.kernels.cpu.templates.conv_choices import ConvChoices
from compiler.kernels.cpu.templates.nests import Nest
from compiler.kernels.cpu.templates.words import (
    ONES,
    WORD_BYTES,
    WordArithmetic,
    takes_bytes,
    unsigned,
    unsigned_zero_point,
    word_arithmetic,
    word_at,
    word_of,
    words_at,
    words_of,
)
from compiler.kernels.cpu.tiling import BYTE_STORES
from compiler.kernels.group import Group, Node
from compiler.kernels.ops import wrapping
from compiler.kernels.tir.fusion import FusionContext
from compiler.target.target import CpuTarget


class ByteConvolution(AnchorTemplate[None]):
    """A group around a convolution of bytes in one or two dimensions whose weights are constant."""

    name = "byte_convolution"
    types = ("ConvInteger",)

    def read(self, group: Group, anchor: Node[int], target: CpuTarget) -> Ways[None] | None:
        """The likeliest nest."""
        weight = anchor.operand(1)
        spatial = len(group.values[anchor.operand(0)].shape) - 2
        if not (takes_bytes(group, anchor) and group.is_packable(weight) and spatial in (1, 2)):
            return None
        around = elementwise_context(group, anchor)
        if around is None:
            return None
        conv = read_convolution(group, anchor)
        nest = byte_nest(conv, around, target)
        packing = byte_weight_packing(nest, conv.channels)
        loops = Loops(lambda: nest.launches(around.reads[weight]), {weight: packing})
        slots = conv.images * conv.groups * nest.slots
        return Ways(
            around=around,
            flops=2 * conv.multiplications,
            slots={None: slots},
            loops=lambda _: loops,
        )


def byte_nest(conv: Convolution, around: FusionContext, target: CpuTarget) -> Nest:
    """The nest of a convolution whose channels are words."""
    words = replace(conv, channels=words_of(conv.channels))
    operands = ByteOperands(around, conv.channels, word_arithmetic(target, False))
    core = core_of(target)
    cache = second_cache_bytes(target)
    nest = ConvChoices(words, around, core, operands, cache).likeliest
    rows = isinstance(nest, ChannelLanes)  # images are broadcast there
    return replace(nest, operands=replace(operands, arithmetic=word_arithmetic(target, rows)))


def byte_weight_packing(nest: Nest, channels: int) -> str:
    """Weights as tiles of output channels: their sums, then words of four input channels."""
    conv, kernel = nest.conv, nest.conv.kernel
    missing = nest.tiles * nest.width - conv.filters
    unfilled = conv.channels * WORD_BYTES - channels
    tiles = conv.groups * nest.tiles
    return "|".join(
        [
            packing_step("reshape", [conv.groups, conv.filters, channels, *kernel]),
            packing_step("pad", [0, missing, unfilled, 0, 0]),
            packing_step("reshape", [tiles, nest.width, conv.channels, WORD_BYTES, *kernel]),
            packing_step("transpose", [0, 2, 4, 5, 1, 3]),
            packing_step("reshape", [tiles, conv.channels * prod(kernel), nest.width, WORD_BYTES]),
            "sums",
        ]
    )


@dataclass(frozen=True)
class ByteOperands:
    """Words of `channels` channels of an image, padded with its zero point, and of weights."""

    around: FusionContext
    channels: int
    arithmetic: WordArithmetic

    dtype = "int32"
    head_rows = 1
    reads_image = False
    image_number = None
    panels = True
    stores = BYTE_STORES

    @property
    def padding(self) -> Any:
        """The word of zero points."""
        return wrapping.multiply(unsigned_zero_point(self.around), tirx.const(ONES, "int32"))

    def element(self, lead: Sequence[Any], row: Any, column: Any) -> Any:
        """The word of four channels, `lead` the image and the number of the word."""
        image, word = lead
        words = words_of(self.channels)
        group, first = word // words, word % words * WORD_BYTES
        at = [row, column][-self.around.spatial :]

        def byte(number: int) -> Any:
            own = first + number
            if words > 1 and words * WORD_BYTES > self.channels:
                own = tirx.min(own, tirx.const(self.channels - 1, "int32"))
            return unsigned(self.around.operand(0, [image, group * self.channels + own, *at]))

        return word_of([byte(number) for number in range(min(WORD_BYTES, self.channels))])

    def weight(self, weights: Var, position: Any) -> Any:
        """The weights of four channels."""
        return word_at(weights, position)

    def weights(self, weights: Var, position: Any, lanes: int) -> Any:
        """A vector of words of weights."""
        return words_at(weights, position, lanes)

    def bias(self, number: Any, weights: Var, head: Any) -> Any:
        """The share of the zero point in the sums of an output channel, negated."""
        zero = unsigned_zero_point(self.around, self.arithmetic.less)
        total = wrapping.multiply(zero, word_at(weights, head))
        return wrapping.subtract(tirx.const(0, "int32"), total)
