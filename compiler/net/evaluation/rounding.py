"""Types of computation, and conversions between element types."""

from typing import Any

import ml_dtypes
import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.text import is_text, numbers_of, texts_of
from compiler.net.node import TypedNode

_SMALL_INTEGERS = ("int8", "uint8", "int16", "uint16")


def is_floating(dtype: np.dtype) -> bool:
    """Whether a dtype is a float, including ml_dtypes'."""
    return dtype.kind == "f" or (_is_extension(dtype) and "float" in dtype.name)


def _is_extension(dtype: np.dtype) -> bool:
    """Whether a dtype is one of ml_dtypes', asked first as numpy takes microseconds for a name."""
    return dtype.kind == "V"


def compute_dtype(array: Array) -> Array:
    """An array in its type of computation: float32 for narrower floats."""
    narrow = is_floating(array.dtype) and array.dtype.itemsize < 4
    return array.astype(np.float32) if narrow else array


def double(array: Array) -> Array:
    """A float array as float64; others as they are."""
    return array.astype(np.float64, copy=False) if is_floating(array.dtype) else array


def nan_mask(array: Array) -> Array:
    """Whether each element is NaN."""
    if not is_floating(array.dtype):
        return np.zeros(array.shape, bool)
    return np.isnan(compute_dtype(array))


def _from_float(array: Array, dtype: np.dtype) -> Array:
    """Truncated towards zero; numbers out of range wrap, or become the least integer."""
    array = np.trunc(array)
    signed = np.dtype("int32" if dtype.name in _SMALL_INTEGERS else "int64")
    if dtype == np.int32:
        signed = dtype
    limits = np.iinfo(signed)
    inside = (array >= float(limits.min)) & (array < -float(limits.min))
    result = np.where(inside, array, 0).astype(signed)
    result = np.where(inside, result, limits.min).astype(dtype)
    if dtype != np.uint64:
        return result
    large = (array >= 2.0**63) & (array < 2.0**64)
    return np.where(large, np.where(large, array, 0).astype(dtype), result)


def _to_small(array: Array, dtype: np.dtype) -> Array:
    """Integers of less than a byte keep the lowest bits."""
    bits = ml_dtypes.iinfo(dtype).bits
    integers = _from_float(array, np.dtype(np.int64)) if is_floating(array.dtype) else array
    low = integers.astype(np.int64) & ((1 << bits) - 1)
    negative = dtype.name.startswith("int") & (low >> (bits - 1))
    return (low - (negative << bits)).astype(np.int8).astype(dtype)


def converted_array(array: Array, dtype: np.dtype) -> Array:
    """An array in another numeric type: floats rounded to even, integers truncated and wrapped."""
    if array.dtype == dtype:
        return array
    source = array.dtype
    if dtype == np.bool_:
        return (compute_dtype(array) if is_floating(source) else array) != 0
    if source == np.bool_:
        array = array.astype(np.uint8)
    if _is_extension(dtype) and dtype.name.startswith(("int", "uint")):
        return _to_small(compute_dtype(array), dtype)
    if is_floating(source) and not is_floating(dtype):
        return _from_float(compute_dtype(array), dtype)
    if _is_extension(source) and not is_floating(source):
        array = array.astype(np.int8)
    if is_floating(dtype) and dtype.itemsize < 4:
        array = array.astype(np.float32)
    return array.astype(dtype)


def finite_limits(dtype: np.dtype) -> tuple[float, float]:
    """The least and the largest finite number of a float."""
    finfo: Any = ml_dtypes.finfo
    limits = finfo(dtype)
    return float(limits.min), float(limits.max)


def _to_scale(array: Array, direction: str, saturate: bool) -> Array:
    """Powers of two in a byte (float8_e8m0fnu): rounded up, down or to the nearest."""
    dtype = np.dtype(ml_dtypes.float8_e8m0fnu)
    values = np.abs(compute_dtype(array).astype(np.float64))
    fraction, exponent = np.frexp(values)
    up = {"up": fraction > 0.5, "down": np.zeros(values.shape, bool)}
    power = exponent - 1 + up.get(direction, fraction >= 0.75)
    invalid = ~np.isfinite(values) if not saturate else np.isnan(values)
    over = (power > 127) | np.isinf(values)
    power = np.clip(np.where(values == 0, -127, power), -127, 127)
    power = np.where(np.isinf(values), 127, power)
    result = np.where(invalid | (over & (not saturate)), np.nan, np.ldexp(1.0, power))
    return result.astype(dtype)


def cast_array(
    array: Array, dtype: np.dtype, saturate: bool = True, round_mode: str = "up"
) -> Array:
    """An array in another element type, as Cast does it: texts too, whose truth is their number's.

    `saturate` is for floats of a byte, `round_mode` for powers of two in a byte. Raises ValueError
    for a text that is not a number.
    """
    if dtype.kind in "OU":
        return array if is_text(array) else texts_of(array)
    if is_text(array):
        array = numbers_of(array, whole=not is_floating(dtype) and dtype != np.bool_)
    if array.dtype != dtype and is_floating(dtype) and dtype.itemsize == 1:
        if dtype.name == "float8_e8m0fnu":
            return _to_scale(array, round_mode, saturate)
        if saturate or dtype.name.startswith("float4"):
            array = np.clip(compute_dtype(array).astype(np.float64), *finite_limits(dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        return converted_array(array, dtype)


@evaluates("Cast")
def evaluate_cast(node: TypedNode) -> Array:
    """Another element type."""
    saturate = bool(node["saturate"])
    round_mode = node["round_mode"]
    return cast_array(node.array(0), node.dtype_of(node["to"]), saturate, round_mode)
