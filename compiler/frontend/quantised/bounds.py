"""Bounds of the elements of a value, as far as they follow from the operators that compute it."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import ml_dtypes

from compiler.frontend.graph import Dequantised, Operator, Value
from compiler.frontend.quantised.contract import REARRANGING

NumberRange = tuple[float, float]
"""The least and the greatest number that an element may be."""

ANY_NUMBER: NumberRange = (-inf, inf)

MOST_FOLLOWED = 8
"""The most operators that are followed."""

_LARGEST = 1 << 16
"""Most elements of a constant that is read for its bounds."""

_ALWAYS: Mapping[str, NumberRange] = {
    "Erf": (-1.0, 1.0),
    "Sigmoid": (0.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Tanh": (-1.0, 1.0),
}
"""The bounds of operators whatever they read."""


def bounds(
    value: Value, makers: Mapping[Value, Operator], depth: int = MOST_FOLLOWED
) -> NumberRange:
    """The bounds of a value's elements; `makers` has the operators of values."""
    if value.array is not None and value.array.size <= _LARGEST:
        return _of_constant(value)
    if isinstance(value.code, Dequantised) and (found := bounds_of_code(value.code)) is not None:
        return found
    maker = makers.get(value)
    if maker is None or not depth:
        return ANY_NUMBER
    if maker.op_type in _ALWAYS:
        return _ALWAYS[maker.op_type]
    if maker.op_type in (*REARRANGING, "Gather"):
        return bounds(maker.operand(0), makers, depth - 1)
    make = _COMPUTED.get(maker.op_type)
    if make is None:
        return ANY_NUMBER
    return make(*[_operand(v, makers, depth - 1) for v in maker.inputs])


def bounds_of_code(code: Dequantised) -> NumberRange | None:
    """The numbers of the least and the greatest integer of a tensor.

    None for floats of a byte, several scales, and what only a run knows.
    """
    known = code.scale.array is not None and (code.zero is None or code.zero.array is not None)
    if not known or not code.whole or "int" not in code.integers.dtype:
        return None
    limits, scale = ml_dtypes.iinfo(code.integers.dtype), float(code.scale.content)
    zero = 0 if code.zero is None else int(code.zero.content)
    return ((limits.min - zero) * scale, (limits.max - zero) * scale) if scale > 0 else None


def _operand(value: Value | None, makers: Mapping[Value, Operator], depth: int) -> NumberRange:
    return ANY_NUMBER if value is None else bounds(value, makers, depth)


def _of_constant(value: Value) -> NumberRange:
    array: Any = value.content
    if not array.size:
        return ANY_NUMBER
    low, high = float(array.min()), float(array.max())
    return (low, high) if low <= high else ANY_NUMBER  # no order with NaN


def clipped_range(inside: NumberRange, low: float, high: float) -> NumberRange:
    """The bounds of numbers within others when they are clipped."""
    least, most = (min(max(number, low), high) for number in inside)
    return least, most


def _clip(
    x: NumberRange, low: NumberRange = ANY_NUMBER, high: NumberRange = ANY_NUMBER
) -> NumberRange:
    return clipped_range(x, low[0], high[1]) if low[0] <= high[1] else ANY_NUMBER


def _relu(x: NumberRange) -> NumberRange:
    return clipped_range(x, 0.0, inf)


def _add(x: NumberRange, y: NumberRange) -> NumberRange:
    return x[0] + y[0], x[1] + y[1]


def _sub(x: NumberRange, y: NumberRange) -> NumberRange:
    return x[0] - y[1], x[1] - y[0]


def _mul(x: NumberRange, y: NumberRange) -> NumberRange:
    if inf in map(abs, (*x, *y)):
        return ANY_NUMBER
    products = [a * b for a in x for b in y]
    return min(products), max(products)


_COMPUTED: Mapping[str, Callable[..., NumberRange]] = {
    "Add": _add,
    "Clip": _clip,
    "Mul": _mul,
    "Relu": _relu,
    "Sub": _sub,
}
"""The bounds of results by those of the operands."""
