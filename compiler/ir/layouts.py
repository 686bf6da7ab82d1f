"""Layouts of tensors in memory: row-major, or channel-blocked (NCHWc)."""

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from compiler.ir.kept import kept
from compiler.tensors.exact import divides

Tensor = TensorType[Attribute]

BLOCK_BYTES = 16
"""Bytes of one block of channels: what one thread copies at a time."""


@irdl_attr_definition
class ChannelsAttr(ParametrizedAttribute):
    """The encoding of a tensor (N, C, *spatial) that is stored as (C / block, N, *spatial, block).

    With the blocks outermost, a Concat or a Split of channels is a view whatever the batch size.
    The type keeps the logical shape: `tensor<1x64x56x56xf32, #dataflow.channels<4>>`.
    """

    name = "dataflow.channels"
    block: IntAttr

    def __init__(self, block: int):
        super().__init__(IntAttr(block))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<4>`."""
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<4>`."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.block.data))


@kept
def block_of(type: Attribute) -> int:
    """Channels in a block of a tensor of this type; 0 for a row-major one."""
    encoding = cast(Tensor, type).encoding if isinstance(type, TensorType) else None
    return encoding.block.data if isinstance(encoding, ChannelsAttr) else 0


def blocks_first(shape: Sequence[int]) -> bool:
    """Whether channel blocks are outermost; a tensor of one pixel an image stays row-major."""
    return prod(shape[2:]) > 1


def block_steps(shape: Sequence[int], block: int) -> tuple[int, int]:
    """The strides of the batch axis and of the axis of channel blocks, in blocks."""
    outer, channels, *spatial = shape
    pixels = prod(spatial)
    return (pixels, outer * pixels) if blocks_first(shape) else (channels // block, 1)


def _tensor(type: Attribute) -> Tensor:
    """A type as a tensor type; without xDSL's generic check, which takes as long as a verifier."""
    assert isinstance(type, TensorType)
    return cast(Tensor, type)


@kept
def stored_block(type: Attribute) -> int:
    """Like `block_of`, but 0 as well for images of one pixel, for which blocks change nothing."""
    return block_of(type) if blocks_first(_tensor(type).get_shape()) else 0


def with_block(type: Attribute, block: int) -> TensorType[Attribute]:
    """A tensor type in the channel-blocked layout, or row-major for block 0."""
    tensor = _tensor(type)
    if block_of(tensor) == block:
        return tensor
    shape = tensor.get_shape()
    element = tensor.get_element_type()
    return TensorType(element, shape, ChannelsAttr(block)) if block else TensorType(element, shape)


def can_block(shape: tuple[int, ...], block: int) -> bool:
    """Whether a shape can be channel-blocked: its channels fill whole blocks, for all sizes."""
    return block > 1 and len(shape) >= 3 and prod(shape) > 0 and divides(block, shape[1])


def verify_layout(type: Attribute) -> None:
    """Raise VerifyException if the channels of a tensor do not fill its blocks."""
    block = block_of(type)
    if block and not can_block(_tensor(type).get_shape(), block):
        raise VerifyException(f"channels in blocks of {block} do not fit {type}")
