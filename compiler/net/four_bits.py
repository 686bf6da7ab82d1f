"""Weights of four bits in arrays: two a byte, the lower one first, with a scale for each block."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FOUR_BIT_MIDDLE = 8
"""The zero point of integers of four bits for which none is given."""

LEAST_BLOCK, LARGEST_BLOCK = 16, 256
"""The weights of one scale: the powers of two that onnxruntime has kernels for."""


def unpack_nibbles(packed: Array) -> Array:
    """The integers from 0 to 15 of uint8[..., n], as uint8[..., 2 n]."""
    pairs = np.stack((packed & 15, packed >> 4), axis=-1)
    return pairs.reshape(*packed.shape[:-1], -1)


def pack_nibbles(integers: Array) -> Array:
    """The bytes of integers from 0 to 15: uint8[..., ceil(n / 2)]; a missing last one is 0."""
    *lead, count = integers.shape
    padded = np.pad(integers, [*[(0, 0)] * len(lead), (0, count % 2)])
    pairs = padded.reshape(*lead, -1, 2).astype(np.uint8)
    return pairs[..., 0] | pairs[..., 1] << 4


def zero_points(zeros: Array | None, blocks: int) -> Array:
    """The zero points [N, blocks] of MatMulNBits' operand, or [1, 1] without one."""
    if zeros is None:
        return np.full((1, 1), FOUR_BIT_MIDDLE, np.uint8)
    return unpack_nibbles(zeros)[:, :blocks] if zeros.dtype == np.uint8 else zeros


def four_bit_numbers(packed: Array, scales: Array, zeros: Array | None, depth: int) -> Array:
    """The numbers [N, depth] that MatMulNBits multiplies by, in the scales' type.

    `packed` is uint8[N, blocks, block / 2], `scales` [N, blocks], `zeros` as in `zero_points`.
    """
    columns, blocks, _ = packed.shape
    zero = zero_points(zeros, blocks).astype(scales.dtype)
    exact = unpack_nibbles(packed).astype(scales.dtype)
    numbers = (exact - zero[..., np.newaxis]) * scales[..., np.newaxis]
    return numbers.reshape(columns, -1)[:, :depth]
