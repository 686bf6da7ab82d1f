"""Quantisation and its inverse, rounded after each step as their arithmetic is."""

from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import cast_array, converted_array, double, is_floating
from compiler.net.node import TypedNode


def scaled_parts(node: TypedNode, index: int) -> tuple[int, int] | None:
    """The axis along which a scale or zero point differs, and how many elements have one each.

    None where one number holds for the whole tensor.
    """
    shape = node.shape(index)
    axis: int = node["axis"]
    block: int = node["block_size"]
    if len(shape) < 2 and not block:
        return None if prod(shape) == 1 else (axis, 1)
    return axis, block or -(-node.shape()[axis] // max(shape[axis], 1))


def _along(node: TypedNode, index: int) -> Array:
    """A scale or zero point, shaped to broadcast over the tensor."""
    numbers = node.array(index)
    parts = scaled_parts(node, index)
    if parts is None:
        return numbers.reshape(())
    axis, block = parts
    x = node.shape()
    if numbers.ndim < len(x):
        return numbers.reshape(-1, *[1] * (len(x) - 1 - axis))
    return np.repeat(numbers, block, axis)[(slice(None),) * axis + (slice(x[axis]),)]


def _dtype(node: TypedNode, name: str, default: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that an attribute names, or the default."""
    return node.dtype_of(node[name]) if node[name] else default


@evaluates("DequantizeLinear")
def evaluate_dequantised(node: TypedNode) -> Array:
    """Integers less their zero points, times their scales; float8s in the type of these."""
    x = node.array(0)
    scale = _along(node, 1)
    kind = scale.dtype
    exact = kind if is_floating(x.dtype) else np.dtype(np.int32)
    integers = converted_array(x, exact)
    if node.has(2):
        integers = (integers - converted_array(_along(node, 2), exact)).astype(exact)
    scaled = double(converted_array(integers, kind)) * double(scale)
    return converted_array(scaled.astype(kind), _dtype(node, "output_dtype", kind))


@evaluates("QuantizeLinear")
def evaluate_quantised(node: TypedNode) -> Array:
    """Numbers divided by their scales, rounded to even, zero points added, and saturated."""
    scale = _along(node, 1)
    kind = _dtype(node, "precision", scale.dtype)
    x = double(converted_array(node.array(0), kind))
    quotient = (x / double(converted_array(scale, kind))).astype(kind)
    zero = _along(node, 2) if node.has(2) else None
    dtype = _dtype(node, "output_dtype", np.dtype(np.uint8) if zero is None else zero.dtype)
    if is_floating(dtype):
        return cast_array(quotient, dtype, bool(node["saturate"]))
    rounded = np.rint(double(quotient))
    if zero is not None:
        rounded = (rounded + converted_array(zero, kind)).astype(kind)
    limits = ml_dtypes.iinfo(dtype)
    low, high = np.array([limits.min, limits.max]).astype(kind)
    return cast_array(np.clip(rounded, low, high).astype(kind), dtype)
