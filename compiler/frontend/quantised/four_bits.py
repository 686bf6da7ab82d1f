"""Matmuls by constant weights of four bits: packed where few rows are multiplied, else floats.

Reading the weights is what a matmul of few rows costs. With many rows it is arithmetic, to which
unpacking would be added in every kernel.
"""

from math import prod

import numpy as np

from compiler.frontend.builder import Builder
from compiler.frontend.graph import FourBits, Value, inner_graphs
from compiler.frontend.quantised.walk import Walk
from compiler.net.four_bits import (
    FOUR_BIT_MIDDLE,
    LARGEST_BLOCK,
    LEAST_BLOCK,
    Array,
    four_bit_numbers,
    pack_nibbles,
)
from compiler.net.node import Node
from compiler.net.operators.contractions import GEMMS
from compiler.tensors.extents import at_hints

MOST_PACKED_ROWS = 16
"""The rows up to which weights stay packed."""


class Packing(Walk):
    """Packs weights of four bits of matmuls of at most so many rows, also in bodies.

    Those of all others are unpacked.
    """

    def __init__(self, most: int):
        super().__init__()
        self.most = most

    def replacement(self, operator: Node[Value]) -> Value | None:
        """The value of a matmul whose weight is packed or unpacked."""
        for body in inner_graphs(operator):
            Packing(self.most).rewrite(body)
        if not _is_four_bits(operator):
            return None
        few = at_hints(prod(operator.operand(0).shape[:-1])) <= self.most
        if operator.type == "MatMulNBits":
            return None if few else _unpacked(self.builder, operator)
        return _packed(self.builder, operator) if few else None


def _is_four_bits(operator: Node[Value]) -> bool:
    if operator.type == "MatMulNBits":
        return True
    weighted = operator.type in GEMMS
    return weighted and isinstance(operator.operand(1).code, FourBits)


def _unpacked(builder: Builder, operator: Node[Value]) -> Value:
    """The MatMul by the numbers of a packed weight."""
    packed, scales, *zeros = (value and value.content for value in operator.inputs[1:])
    assert packed is not None
    assert scales is not None
    depth = operator.attributes["K"]
    numbers = four_bit_numbers(packed, scales, zeros[0] if zeros else None, depth)
    weight = builder.constant(np.ascontiguousarray(numbers.T))
    return builder.one("MatMul", operator.operand(0), weight)


def _packed(builder: Builder, operator: Node[Value]) -> Value | None:
    """The matmul by packed weights instead of a MatMul or Gemm by their numbers, if they fit."""
    data = operator.operand(0)
    code = operator.operand(1).code
    assert isinstance(code, FourBits)
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
    addend = operator.inputs[2] if len(operator.inputs) > 2 else None
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
