"""Contractions of bytes: four consecutive ones are a word of 32 bits, which one step multiplies.

The left operand of a step holds unsigned bytes, the right one signed ones, as x86's VNNI
instruction and Arm's USDOT take them. SDOT takes signed ones alone: left bytes are less by 128
there, as if the zero point were. Elsewhere the same sums are four multiplications of int32.

Packed weights of a tile or panel begin with a row of int32: the sums of the weights of each
column, by which zero points are subtracted.
"""

from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.ir import Var

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.byte_sums import LANES, byte_sums
from compiler.kernels.cpu.machine import ByteSums, byte_sums_of
from compiler.kernels.group import Group, Node
from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import cast
from compiler.kernels.tir.fusion import FusionContext
from compiler.target.target import CpuTarget

WORD_BYTES = 4
"""Bytes of a word."""

ONES = 0x01010101
"""A word of bytes that are one."""

SIGN_BIT = 128
"""The number by which a signed byte differs from the unsigned one with the other sign bit."""


SIGN_BITS = -0x7F7F7F80
"""The int32 of a word of such bits."""


def words_of(count: int) -> int:
    """The words that hold a number of bytes."""
    return ceil_div(count, WORD_BYTES)


@dataclass(frozen=True)
class WordArithmetic:
    """Sums of multiplied bytes; the broadcast words are the left ones if `unsigned_rows`."""

    instruction: ByteSums
    unsigned_rows: bool

    dtype = "int32"

    @property
    def less(self) -> int:
        """The number that is subtracted from left bytes, and so has to be from their zero point."""
        return SIGN_BIT if self.instruction == "sdot" else 0

    @property
    def exact(self) -> "WordArithmetic":
        """The arithmetic that subtracts nothing."""
        return self if not self.less else replace(self, instruction="")

    def multiply_add(self, total: Any, row: Any, vector: Any, lanes: int) -> Any:
        """The sums after one step of a broadcast word and a vector of words."""
        left, right = (row, vector) if self.unsigned_rows else (vector, row)
        if self.less:
            left = left ^ _splat(SIGN_BITS, lanes)
        if lanes in LANES.get(self.instruction, ()):
            return byte_sums(self.instruction, total, left, right, lanes)
        own = _signed_byte if self.less else _unsigned_byte
        for byte in range(WORD_BYTES):
            factors = own(left, byte, lanes), _signed_byte(right, byte, lanes)
            total = wrapping.add(total, wrapping.multiply(*factors))
        return total


def _splat(number: int, lanes: int) -> Any:
    scalar = tirx.const(number, "int32")
    return tirx.Broadcast(scalar, lanes) if lanes > 1 else scalar


def _unsigned_byte(words: Any, byte: int, lanes: int) -> Any:
    shifted = words >> _splat(8 * byte, lanes) if byte else words
    return shifted & _splat(255, lanes)


def _signed_byte(words: Any, byte: int, lanes: int) -> Any:
    last = WORD_BYTES - 1
    first = words << _splat(8 * (last - byte), lanes) if byte < last else words
    return first >> _splat(8 * last, lanes)


def word_at(source: Var, position: Any) -> Any:
    """A word of a buffer of bytes; positions count words."""
    bytes = tirx.BufferLoad(source, [tirx.Ramp(position * WORD_BYTES, 1, WORD_BYTES)])
    return tirx.reinterpret("int32", bytes)


def words_at(source: Var, position: Any, lanes: int) -> Any:
    """A vector of words of a buffer of bytes; positions count words."""
    if lanes == 1:
        return word_at(source, position)
    bytes = tirx.BufferLoad(source, [tirx.Ramp(position * WORD_BYTES, 1, WORD_BYTES * lanes)])
    return tirx.reinterpret(f"int32x{lanes}", bytes)


def unsigned(value: Any) -> Any:
    """A byte as an int32 from 0 to 255; of a signed one, the sign bit is flipped."""
    wide = cast(value, "int32")
    return wide + SIGN_BIT if value.ty.dtype == "int8" else wide


def word_of(bytes: list[Any]) -> Any:
    """The word of up to four int32 from 0 to 255, the first lowest."""
    word = bytes[0]
    for number, byte in enumerate(bytes[1:], 1):
        word = word | (byte << _splat(8 * number, 1))
    return word


def unsigned_zero_point(around: FusionContext, less: int = 0) -> Any:
    """The zero point of the anchor's operand 0, which is operand 2, as `unsigned` makes it, less a
    number."""
    whole = _unsigned_zero_point(around)
    return whole - less if less else whole


def _unsigned_zero_point(around: FusionContext) -> Any:
    tensor = around.operands[2] if len(around.operands) > 2 else None
    if tensor is not None:
        return unsigned(around.operand(2, [0] * len(tensor.shape)))
    left = around.operands[0]
    assert left is not None
    return unsigned(tirx.const(0, str(left.dtype)))


def takes_bytes(group: Group, anchor: Node[int]) -> bool:
    """Whether an operator multiplies bytes by signed ones without a zero point."""
    values = [group.values[i] for i in anchor.inputs[:2] if i is not None]
    plain = len(anchor.inputs) < 4 or anchor.inputs[3] is None
    return plain and values[1].dtype == "int8" and all(value.elements for value in values)


def word_arithmetic(target: CpuTarget, unsigned_rows: bool) -> WordArithmetic:
    """The arithmetic of a target."""
    return WordArithmetic(byte_sums_of(target), unsigned_rows)
