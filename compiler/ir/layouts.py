"""How a tensor lies in memory: row-major, or with its channels in blocks."""

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

Tensor = TensorType[Attribute]

BLOCK_BYTES = 16
"""Bytes of one block of channels: what one thread copies at a time."""


@irdl_attr_definition
class ChannelsAttr(ParametrizedAttribute):
    """The encoding of a tensor (N, C, *spatial) that is stored as (C / block, N, *spatial, block).

    So channels of a whole batch are joined and cut without moving any. Its logical shape stays;
    `tensor<1x64x56x56xf32, #dataflow.channels<4>>` is an example.
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


def block_of(type: Attribute) -> int:
    """Channels in a block of a tensor of this type; 0 where it lies row-major."""
    encoding = cast(Tensor, type).encoding if isinstance(type, TensorType) else None
    return encoding.block.data if isinstance(encoding, ChannelsAttr) else 0


def blocks_first(shape: Sequence[int]) -> bool:
    """Whether blocks of channels lie before the batch: not of one pixel, which stays row-major."""
    return prod(shape[2:]) > 1


def block_steps(shape: Sequence[int], block: int) -> tuple[int, int]:
    """How many blocks lie from one image to the next, and from one block of channels."""
    outer, channels, *spatial = shape
    pixels = prod(spatial)
    return (pixels, outer * pixels) if blocks_first(shape) else (channels // block, 1)


def _tensor(type: Attribute) -> Tensor:
    """The type of a tensor; matching it against the generic one takes a verification's time."""
    assert isinstance(type, TensorType)
    return cast(Tensor, type)


def stored_block(type: Attribute) -> int:
    """As `block_of`, but 0 as well where blocks make no difference: where all else is one pixel."""
    return block_of(type) if blocks_first(_tensor(type).get_shape()) else 0


def with_block(type: Attribute, block: int) -> TensorType[Attribute]:
    """The same tensor type with its channels in blocks, or row-major for 0."""
    tensor = _tensor(type)
    if block_of(tensor) == block:
        return tensor
    shape, element = tensor.get_shape(), tensor.get_element_type()
    return TensorType(element, shape, ChannelsAttr(block)) if block else TensorType(element, shape)


def can_block(shape: tuple[int, ...], block: int) -> bool:
    """Whether the channels of a shape fill whole blocks."""
    return block > 1 and len(shape) >= 3 and prod(shape) > 0 and shape[1] % block == 0


def verify_layout(type: Attribute) -> None:
    """Raise VerifyException for a tensor whose channels do not fill its blocks."""
    block = block_of(type)
    if block and not can_block(_tensor(type).get_shape(), block):
        raise VerifyException(f"channels in blocks of {block} do not fit {type}")
