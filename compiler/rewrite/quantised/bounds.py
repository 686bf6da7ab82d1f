"""The bounds of numbers: those of the operators that compute them, or of integers."""

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes

from compiler.net.facts import EVERYTHING, NumberRange
from compiler.net.graph import Value
from compiler.net.node import Node
from compiler.net.operators import OPERATORS
from compiler.net.operators.elementwise import clipped
from compiler.rewrite.quantised.dequantised import Dequantised

NumberOf = Callable[[Value], Dequantised | None]

MOST_FOLLOWED = 8
"""The most operators that are followed."""

_LARGEST = 1 << 16
"""Most elements of a constant that is read for its bounds."""


def number_bounds(
    value: Value,
    makers: Mapping[Value, Node[Value]],
    number_of: NumberOf = lambda value: None,
    depth: int = MOST_FOLLOWED,
) -> NumberRange:
    """The bounds of a value's elements; `makers` has the operators of values.

    `number_of` says for which values integers stand.
    """
    if value.array is not None and value.array.size <= _LARGEST:
        array: Any = value.content
        if not array.size:
            return EVERYTHING
        low, high = float(array.min()), float(array.max())
        return (low, high) if low <= high else EVERYTHING  # no order with NaN
    number = number_of(value)
    limits = number and bounds_of_integers(number)
    computed = _bounds_by_operator(value, makers, number_of, depth)
    return computed if limits is None else clipped(computed, *limits)


def _bounds_by_operator(
    value: Value, makers: Mapping[Value, Node[Value]], number_of: NumberOf, depth: int
) -> NumberRange:
    """The bounds by those of the operands of the operator that computes a value."""
    maker = makers.get(value)
    if maker is None or not depth:
        return EVERYTHING
    entry = OPERATORS.get(maker.type)
    if entry is None or (value is not maker.outputs[0] and entry.maps is None):
        return EVERYTHING  # positions, as a MaxPool has, are outside the bounds of numbers
    if entry.picks:
        return number_bounds(maker.operand(0), makers, number_of, depth - 1)
    if entry.facts.interval is None:
        return EVERYTHING
    operands = (v and number_bounds(v, makers, number_of, depth - 1) for v in maker.inputs)
    return entry.facts.interval([EVERYTHING if bounds is None else bounds for bounds in operands])


def bounds_of_integers(number: Dequantised) -> NumberRange | None:
    """The numbers of the least and the greatest integer of a tensor.

    None for floats of a byte, several scales, and what only a run knows.
    """
    constant = number.scale.array is not None and (
        number.zero is None or number.zero.array is not None
    )
    if not constant or not number.whole or "int" not in number.dtype:
        return None
    limits = ml_dtypes.iinfo(number.dtype)
    scale = float(number.scale.content)
    zero = 0 if number.zero is None else int(number.zero.content)
    return ((limits.min - zero) * scale, (limits.max - zero) * scale) if scale > 0 else None
