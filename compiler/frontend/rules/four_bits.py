"""Constants of four bits, as the matrices that are multiplied by without unpacking them before."""

import numpy as np

from compiler.frontend.graph import FourBits
from compiler.frontend.rules.call import Call
from compiler.net.four_bits import FOUR_BIT_MIDDLE, Array

HALF_BYTES = ("int4", "uint4")
"""The dtypes of four bits."""


def four_bits(call: Call) -> FourBits | None:
    """The integers of DequantizeLinear's constant result; None unless they are a matrix's."""
    x, scale, zero = call.data, call.operand(1), call.input(2)
    if x.array is None or scale.array is None or x.rank != 2 or scale.dtype != "float32":
        return None
    if zero is not None and zero.array is None:
        return None
    axis, block = call.axis(), call["block_size"]
    scales = _shaped(scale.content)
    if scales.ndim == 2 and not block:
        block = -(-x.shape[axis] // scales.shape[axis])
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
