"""Bounds of the elements of a value, as far as they follow from the operators that compute it."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes

from compiler.frontend.graph import Dequantised, Operator, Value
from compiler.net.facts import EVERYTHING, NumberRange
from compiler.net.operators import OPERATORS

MOST_FOLLOWED = 8
"""The most operators that are followed."""

_LARGEST = 1 << 16
"""Most elements of a constant that is read for its bounds."""


def number_bounds(
    value: Value, makers: Mapping[Value, Operator], depth: int = MOST_FOLLOWED
) -> NumberRange:
    """The bounds of a value's elements; `makers` has the operators of values."""
    if value.array is not None and value.array.size <= _LARGEST:
        return _of_constant(value)
    if isinstance(value.code, Dequantised) and (limits := bounds_of_code(value.code)) is not None:
        return limits
    maker = makers.get(value)
    if maker is None or not depth:
        return EVERYTHING
    entry = OPERATORS.get(maker.op_type)
    if entry is None or (value is not maker.outputs[0] and entry.maps is None):
        return EVERYTHING  # positions, as a MaxPool has, are outside the bounds of numbers
    if entry.picks:
        return number_bounds(maker.operand(0), makers, depth - 1)
    if entry.facts.interval is None:
        return EVERYTHING
    return entry.facts.interval([_operand(v, makers, depth - 1) for v in maker.inputs])


def bounds_of_code(code: Dequantised) -> NumberRange | None:
    """The numbers of the least and the greatest integer of a tensor.

    None for floats of a byte, several scales, and what only a run knows.
    """
    constant = code.scale.array is not None and (code.zero is None or code.zero.array is not None)
    if not constant or not code.whole or "int" not in code.integers.dtype:
        return None
    limits, scale = ml_dtypes.iinfo(code.integers.dtype), float(code.scale.content)
    zero = 0 if code.zero is None else int(code.zero.content)
    return ((limits.min - zero) * scale, (limits.max - zero) * scale) if scale > 0 else None


def _operand(value: Value | None, makers: Mapping[Value, Operator], depth: int) -> NumberRange:
    return EVERYTHING if value is None else number_bounds(value, makers, depth)


def _of_constant(value: Value) -> NumberRange:
    array: Any = value.content
    if not array.size:
        return EVERYTHING
    low, high = float(array.min()), float(array.max())
    return (low, high) if low <= high else EVERYTHING  # no order with NaN
