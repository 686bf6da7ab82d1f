"""Contractions of bytes that tensor cores compute: by constant weights without zero points.

A zero point of the other operand is subtracted from the sums, times the sums of weights:
`(x - z) * w = x * w - z * (1 * w)`.
"""

import numpy as np

from compiler.net.building.builder import NetBuilder
from compiler.net.building.quantised import fitting_differences
from compiler.net.graph import Value
from compiler.net.node import Node
from compiler.net.operators import INTEGER_CONTRACTIONS
from compiler.net.operators.contractions import GEMMS
from compiler.rewrite.quantised.dequantised import Dequantised
from compiler.tensors.contraction import Contraction

CHANNELS = 16
"""The channels of a block, by which images are read."""


def suits(way: Contraction, operator: Node[Value], left: Dequantised, right: Dequantised) -> bool:
    """Whether a contraction of dequantised bytes becomes one of bytes, for which there is a kernel.

    CPUs have those of all contractions of integers.
    """
    float8 = way in (Contraction.FLOAT8_TILES, Contraction.FLOAT8_OPERANDS)
    if not way.in_bytes or (left.is_float8 and not float8):
        return False
    if not way.on_tensor_cores:
        return True
    weights = right.constant
    if weights is None or operator["transA"] or not _suits_zero(operator.type, weights, right):
        return False
    return _suits(operator.type, operator["group"], operator.operand(0), weights)


def has_byte_kernel(way: Contraction, operator: Node[Value]) -> bool:
    """Whether a kernel computes a contraction of bytes as it is, but for a zero point of rows."""
    tiled = operator.type not in INTEGER_CONTRACTIONS or is_tiled(operator)
    return way is Contraction.BYTES or (way.on_tensor_cores and tiled)


def _suits_zero(op_type: str, weights: Value, number: Dequantised) -> bool:
    """Whether a contraction by weights with this zero point is one of int8 and few additions.

    That of a matmul is multiplied by sums of rows, that of a convolution would be by a second
    convolution.
    """
    middle = 128 if weights.dtype == "uint8" else 0
    zero = number.zero
    if zero is None:
        return middle == 0
    if zero.array is None:
        return False
    matrix = op_type in GEMMS
    fits = fitting_differences(weights, zero) is not None
    return matrix or fits or bool((zero.array == middle).all())


def _suits(op_type: str, groups: object, data: Value, weights: Value) -> bool:
    if op_type in ("Conv", "ConvInteger"):
        image = data.rank < 5 and data.shape[1] % CHANNELS == 0
        return weights.array is not None and groups == 1 and image
    return weights.array is not None


def is_tiled(operator: Node[Value]) -> bool:
    """Whether an integer contraction is one that tensor cores take."""
    data, weights = operator.operand(0), operator.operand(1)
    zeros = [*operator.inputs[2:], None, None][:2]
    whole = zeros[0] is None or not zeros[0].shape
    groups = operator["group"]
    symmetric = zeros[1] is None and weights.dtype == "int8"
    return whole and symmetric and _suits(operator.type, groups, data, weights)


def separated(builder: NetBuilder, operator: Node[Value]) -> Value | None:
    """The sums of a tiled contraction less the share of a zero point, on which no kernel depends.

    None for one without a zero point, or of floats of a byte.
    """
    zero = operator.input(2)
    if operator.type not in INTEGER_CONTRACTIONS or zero is None:
        return None
    if zero.array is not None and not zero.array.any():
        return None
    zero = builder.cast(zero, "int32")
    data, weights = operator.operand(0), operator.operand(1)
    (sums,) = builder.emit(operator.type, [data, weights], operator.attributes)
    return builder.one("Sub", sums, builder.one("Mul", _shares(builder, operator), zero))


def _shares(builder: NetBuilder, operator: Node[Value]) -> Value:
    """The sums of the weights that each sum has, as int32."""
    weights = operator.operand(1).array
    assert weights is not None
    if operator.type == "MatMulInteger":
        return builder.constant(weights.sum(-2, keepdims=True, dtype="int32"))
    pixels = np.ones((1, 1, *operator.operand(0).shape[2:]), "float64")
    filters = weights.sum(1, keepdims=True, dtype="int64").astype("float64")
    inputs: list[Value | None] = [builder.constant(pixels), builder.constant(filters)]
    (sums,) = builder.emit("Conv", inputs, operator.attributes)
    if sums.array is None:  # of an image that takes too long for a constant
        return builder.cast(sums, "int32")
    shares = sums.array.astype("int32")
    same = (shares == shares[:, :, :1, :1]).all() if shares.ndim == 4 else False
    return builder.constant(shares[:, :, :1, :1] if same else shares)
