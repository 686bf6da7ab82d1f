"""Matmuls by constant weights of four bits: packed where few rows are multiplied, else floats.

Reading the weights is what a matmul of few rows costs. With many rows it is arithmetic, to which
unpacking would be added in every kernel.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.net.building.builder import NetBuilder
from compiler.net.four_bits import (
    FOUR_BIT_MIDDLE,
    LARGEST_BLOCK,
    LEAST_BLOCK,
    Array,
    four_bit_numbers,
    pack_nibbles,
)
from compiler.net.graph import Value
from compiler.net.node import Node
from compiler.net.operators.contractions import GEMMS
from compiler.tensors.dtypes import HALF_BYTES
from compiler.tensors.extents import at_hints

MOST_PACKED_ROWS = 16
"""The rows up to which weights stay packed."""


@dataclass(frozen=True, eq=False, slots=True)
class FourBits:
    """The integers from 0 to 15 of a constant matrix of floats, uint8 each.

    There is one scale, one for each element of `axis`, or one for each `block` of elements along
    it; zero points, of 0 to 15, are alike, and FOUR_BIT_MIDDLE if they are left out.
    """

    integers: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    axis: int
    block: int

    @property
    def transposed(self) -> "FourBits":
        """The integers of the transposed matrix."""
        scales = self.scales.T
        zeros = None if self.zeros is None else self.zeros.T
        return FourBits(self.integers.T, scales, zeros, 1 - self.axis, self.block)


def four_bits(value: Value) -> FourBits | None:
    """The integers of a constant matrix that a DequantizeLinear of four bits computes."""
    operator = value.code
    if operator is None or operator.operand(0).dtype not in HALF_BYTES:
        return None
    x = operator.operand(0)
    scale = operator.operand(1)
    zero = operator.input(2)
    if x.rank != 2 or scale.dtype != "float32" or value.dtype != "float32":
        return None
    axis: int = operator.attributes["axis"]
    size: int = operator.attributes["block_size"]
    scales = _shaped(scale.content)
    blocks: int = scales.shape[axis] if scales.ndim == 2 else 0
    block = size or (-(-x.shape[axis] // blocks) if blocks else 0)
    if block and x.shape[axis] % block:
        return None
    zeros = np.zeros(scales.shape, x.content.dtype) if zero is None else _shaped(zero.content)
    return FourBits(_unsigned(x.content), scales, _unsigned(zeros), axis, block)


def _shaped(numbers: Array) -> Array:
    """Scales or zero points, a single one without axes."""
    return numbers.reshape(()) if numbers.ndim == 1 and numbers.size == 1 else numbers


def _unsigned(integers: Array) -> Array:
    """Integers of four bits from 0 to 15, the middle added to signed ones."""
    offset = FOUR_BIT_MIDDLE if integers.dtype.name == "int4" else 0
    return (integers.astype(np.int8) + np.int8(offset)).astype(np.uint8)


def with_four_bits(builder: NetBuilder, operator: Node[Value], most_rows: int) -> Value | None:
    """The value of a matmul whose weight is packed for at most so many rows, else unpacked.

    None for one that stays, and for every other operator.
    """
    packed = operator.type == "MatMulNBits"
    code = four_bits(operator.operand(1)) if operator.type in GEMMS else None
    if not packed and code is None:
        return None
    few = at_hints(prod(operator.operand(0).shape[:-1])) <= most_rows
    if code is not None:
        return _packed(builder, operator, code) if few else None
    return None if few else _unpacked(builder, operator)


def _unpacked(builder: NetBuilder, operator: Node[Value]) -> Value:
    """The MatMul by the numbers of a packed weight."""
    packed, scales, *zeros = (value and value.content for value in operator.inputs[1:])
    assert packed is not None
    assert scales is not None
    depth = operator.attributes["K"]
    numbers = four_bit_numbers(packed, scales, zeros[0] if zeros else None, depth)
    weight = builder.constant(np.ascontiguousarray(numbers.T))
    return builder.one("MatMul", operator.operand(0), weight)


def _packed(builder: NetBuilder, operator: Node[Value], code: FourBits) -> Value | None:
    """The matmul by packed weights instead of a MatMul or Gemm by their numbers, if they fit."""
    data = operator.operand(0)
    scaled = operator["alpha"] not in (None, 1)
    if data.dtype != "float32" or data.rank < 2 or operator["transA"] or scaled:
        return None
    rows = _rows(code if operator["transB"] else code.transposed)
    if rows is None:
        return None
    # The MatMulNBits by rows of integers from 0 to 15, whose blocks are along them.
    columns, depth = rows.integers.shape
    size = rows.block
    blocks = -(-depth // size)
    whole = np.pad(rows.integers, ((0, 0), (0, blocks * size - depth)))
    packed = pack_nibbles(whole).reshape(columns, blocks, size // 2)
    inputs: list[Value | None] = [data, *map(builder.constant, (packed, rows.scales))]
    if rows.zeros is not None:
        inputs.append(builder.constant(pack_nibbles(rows.zeros)))
    sizes = {"K": depth, "N": columns, "bits": 4, "block_size": size}
    result = builder.emit("MatMulNBits", inputs, sizes)[0]
    addend = operator.input(2)
    if addend is None:
        return result
    if operator["beta"] != 1:
        addend = builder.one("Mul", addend, builder.constant(operator["beta"], data.dtype))
    return builder.one("Add", result, addend)


def _rows(code: FourBits) -> FourBits | None:
    """A weight [N, K] in blocks along K of a size that kernels have; None where it has none."""
    columns, depth = code.integers.shape
    size = _block_size(code, depth)
    if size is None:
        return None
    shape = columns, -(-depth // size)
    scales = _by_block(code, code.scales, shape, size).astype(np.float32)
    zeros = None if code.zeros is None else _by_block(code, code.zeros, shape, size)
    if zeros is not None and (zeros == FOUR_BIT_MIDDLE).all():
        zeros = None
    return FourBits(code.integers, np.ascontiguousarray(scales), zeros, 1, size)


def _block_size(code: FourBits, depth: int) -> int | None:
    """The largest block that has one scale everywhere."""
    if code.scales.ndim == 2:
        if code.axis != 1:
            return None
        size = code.block & -code.block
        return min(size, LARGEST_BLOCK) if size >= LEAST_BLOCK else None
    if code.scales.ndim == 1 and code.axis != 0:
        return None
    size = LEAST_BLOCK
    while size < min(depth, LARGEST_BLOCK):
        size *= 2
    return size


def _by_block(code: FourBits, numbers: Array, shape: tuple[int, int], size: int) -> Array:
    """Scales or zero points of each row and each block of a size."""
    if numbers.ndim == 2:
        return np.repeat(numbers, code.block // size, axis=1)[:, : shape[1]]
    return np.broadcast_to(numbers.reshape(-1, 1), shape)
