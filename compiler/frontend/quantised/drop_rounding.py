"""Quantised numbers as floats that are not rounded, only kept in the range of their integers.

`Dequantize(Quantize(x))` is x, clipped: quantisers leave out a Relu or a Clip whose work that does.
A MatMul or Conv of integers of a run's own range and constant weights is one of x and the numbers
of the weights, which are those of the quantised model.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from math import inf, prod
from typing import Any

import ml_dtypes
import numpy as np

from compiler.frontend.graph import Dequantised, Quantised, Value
from compiler.frontend.quantised.contract import REARRANGING, is_same
from compiler.frontend.quantised.walk import Walk
from compiler.net.facts import EVERYTHING, NumberRange
from compiler.net.node import Node
from compiler.net.operators import OPERATORS
from compiler.net.operators.elementwise import clipped

MOST_FOLLOWED = 8
"""The most operators that are followed."""

_LARGEST = 1 << 16
"""Most elements of a constant that is read for its bounds."""


def number_bounds(
    value: Value, makers: Mapping[Value, Node[Value]], depth: int = MOST_FOLLOWED
) -> NumberRange:
    """The bounds of a value's elements; `makers` has the operators of values."""
    if value.array is not None and value.array.size <= _LARGEST:
        array: Any = value.content
        if not array.size:
            return EVERYTHING
        low, high = float(array.min()), float(array.max())
        return (low, high) if low <= high else EVERYTHING  # no order with NaN
    if isinstance(value.code, Dequantised) and (limits := bounds_of_code(value.code)) is not None:
        return limits
    maker = makers.get(value)
    if maker is None or not depth:
        return EVERYTHING
    entry = OPERATORS.get(maker.type)
    if entry is None or (value is not maker.outputs[0] and entry.maps is None):
        return EVERYTHING  # positions, as a MaxPool has, are outside the bounds of numbers
    if entry.picks:
        return number_bounds(maker.operand(0), makers, depth - 1)
    if entry.facts.interval is None:
        return EVERYTHING
    return entry.facts.interval(
        [EVERYTHING if v is None else number_bounds(v, makers, depth - 1) for v in maker.inputs]
    )


def bounds_of_code(code: Dequantised) -> NumberRange | None:
    """The numbers of the least and the greatest integer of a tensor.

    None for floats of a byte, several scales, and what only a run knows.
    """
    constant = code.scale.array is not None and (code.zero is None or code.zero.array is not None)
    if not constant or not code.whole or "int" not in code.integers.dtype:
        return None
    limits = ml_dtypes.iinfo(code.integers.dtype)
    scale = float(code.scale.content)
    zero = 0 if code.zero is None else int(code.zero.content)
    return ((limits.min - zero) * scale, (limits.max - zero) * scale) if scale > 0 else None


FLOATS_OF = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
"""The contractions of floats for those of integers."""

PICKING = REARRANGING | {name for name, x in OPERATORS.items() if x.picks}
"""Operators whose results are elements of their first operand, perhaps repeatedly."""

_RANGE_STEPS = ("Div", "Equal", "Max", "Min", "Sub", "Where")
"""The operators between the extremes of a tensor and the scale of its range."""


class Unrounding(Walk):
    """Computes with clipped floats what is quantised and dequantised.

    Those whose integers are `multiplied` by contractions of bytes stay rounded.
    """

    def __init__(self, multiplied: Set[Value] = frozenset()):
        super().__init__()
        self.multiplied = multiplied
        self._numbers: dict[Any, Value | None] = {}

    def replacement(self, operator: Node[Value]) -> Value | None:
        """The value of a contraction of floats instead of the scaled sums of one of integers."""
        if operator.type != "Mul":
            return None
        for sums, scale in (operator.inputs, operator.inputs[::-1]):
            contraction = None if sums is None else self._contraction(sums)
            if contraction is not None and scale is not None:
                return self._of_floats(contraction, scale)
        return None

    def renumbered(self, value: Value) -> Value | None:
        """The number that was quantised to the integers that a value stands for, clipped."""
        code = value.code
        if not isinstance(code, Dequantised) or not code.whole or code.scale.array is None:
            return None
        number = self._moved(code.integers, code)
        return number if number is not None and number.dtype == value.dtype else None

    def _moved(self, integers: Value, code: Dequantised) -> Value | None:
        key = integers, code.scale, code.zero
        if key not in self._numbers:
            self._numbers[key] = self._computed(integers, code)
        return self._numbers[key]

    def _computed(self, integers: Value, code: Dequantised) -> Value | None:
        """The numbers of integers, moved as those are."""
        if integers in self.multiplied:
            return None
        origin = integers.code
        maker = self.makers.get(integers)
        if isinstance(origin, Quantised):
            return self._scaled(integers, origin, code) or self._clipped(origin, code)
        if integers.array is not None:
            return self._weights(integers, code)
        if maker is None or maker.type not in (*PICKING, "Max") or len(maker.outputs) > 1:
            return None
        number = self._moved(maker.operand(0), code)
        if number is None:
            return None
        if maker.type == "Max":
            # A number at least 0, as its integers are at least the zero point.
            rectifies = is_same(maker.operand(1), code.zero) and bounds_of_code(code) is not None
            return self.builder.one("Relu", number) if rectifies else None
        return self.builder.emit(maker.type, [number, *maker.inputs[1:]], maker.attributes)[0]

    def _weights(self, integers: Value, code: Dequantised) -> Value | None:
        """The numbers of constant integers, of which a run moves some."""
        if bounds_of_code(code) is None:
            return None
        zero = 0 if code.zero is None else code.zero.content.astype("int32")
        differences = (integers.content.astype("int32") - zero).astype("float32")
        return self.builder.constant(differences * code.scale.content)

    def _scaled(self, integers: Value, origin: Quantised, code: Dequantised) -> Value | None:
        """The numbers for another scale than that of the quantisation, as they are divided."""
        scales = [value.array for value in (code.scale, origin.scale)]
        if any(scale is None or scale.size != 1 for scale in scales):
            return None
        if is_same(origin.scale, code.scale):
            return None
        number = self._moved(integers, replace(code, scale=origin.scale))
        factor = self.builder.one("Div", code.scale, origin.scale)
        return None if number is None else self.builder.one("Mul", number, factor)

    def _clipped(self, origin: Quantised, code: Dequantised) -> Value | None:
        """A number within the range of the integers that it is quantised to."""
        alike = is_same(origin.scale, code.scale) and is_same(origin.zero, code.zero)
        interval = bounds_of_code(code)
        if not alike or interval is None or origin.number.array is not None:
            return None
        number = self.replaced(origin.number)
        low, high = interval
        half = abs(float(code.scale.content)) / 2  # what is rounded to the last integer
        least, most = number_bounds(number, self.makers)
        if low - half <= least and most <= high + half:
            return number
        number, (low, high) = self._without_clip(number, interval)
        limits = (self.builder.constant(limit, number.dtype) for limit in (low, high))
        return self.builder.one("Clip", number, *limits)

    def _without_clip(self, number: Value, interval: NumberRange) -> tuple[Value, NumberRange]:
        """The operand of a number that is clipped already, and the range that is left by both."""
        maker = self.makers.get(number)
        if maker is None or maker.type not in ("Clip", "Relu"):
            return number, interval
        limits = [None if v is None else v.array for v in maker.inputs[1:]]
        if maker.type == "Relu":
            return maker.operand(0), clipped((0.0, inf), *interval)
        if len(limits) < 2 or any(array is None or array.size != 1 for array in limits):
            return number, interval
        low, high = (float(array.reshape(-1)[0]) for array in limits if array is not None)
        return maker.operand(0), clipped((low, high), *interval)

    def _contraction(self, sums: Value) -> Node[Value] | None:
        """The contraction by constant integers whose sums were cast to floats."""
        cast = self.makers.get(sums)
        if cast is None or cast.type != "Cast" or sums.dtype != "float32":
            return None
        maker = self.makers.get(cast.operand(0))
        if maker is None or maker.type not in FLOATS_OF or maker.operand(1).array is None:
            return None
        return None if len(maker.inputs) > 3 and maker.inputs[3] is not None else maker

    def _of_floats(self, contraction: Node[Value], scale: Value) -> Value | None:
        """The contraction of the floats that were quantised by their own range."""
        origin = contraction.operand(0).code
        weights = contraction.operand(1)
        if contraction.operand(0) in self.multiplied:
            return None
        zero = [*contraction.inputs, None][2]
        if not isinstance(origin, Quantised) or origin.number.dtype != "float32":
            return None
        factor = self._factor(origin, scale)
        if zero is not origin.zero or factor is None or not self._spans(origin):
            return None
        image = contraction.type == "ConvInteger"
        axis, following = (0, weights.rank - 2) if image else (weights.rank - 1, 0)
        factor = _along(factor, weights, axis, following)
        if factor is None:
            return None
        numbers = self.builder.constant(weights.content.astype("float32") * factor)
        number = self.replaced(origin.number)
        return self.builder.emit(
            FLOATS_OF[contraction.type], [number, numbers], contraction.attributes
        )[0]

    def _factor(self, origin: Quantised, scale: Value) -> np.ndarray | None:
        """The constants by which the scale of the quantised numbers is multiplied."""
        if scale is origin.scale:
            return np.ones((), "float32")
        maker = self.makers.get(scale)
        if maker is None or maker.type != "Mul" or origin.scale not in maker.inputs:
            return None
        other = next((v for v in maker.inputs if v is not origin.scale), None)
        return None if other is None else other.array

    def _spans(self, origin: Quantised) -> bool:
        """Whether a scale is that of the range of the numbers, so that none is clipped."""
        ends = list(self._ends(origin.scale))
        kinds = {maker.type for maker in ends}
        number = self.replaced(origin.number)
        return kinds == {"ReduceMax", "ReduceMin"} and all(m.operand(0) is number for m in ends)

    def _ends(self, scale: Value) -> Iterator[Node[Value]]:
        """The operators before those that compute a scale of extremes."""
        pending = [scale]
        seen = {scale}
        while pending:
            maker = self.makers.get(pending.pop())
            if maker is None:
                continue
            if maker.type not in _RANGE_STEPS:
                yield maker
                continue
            new = [v for v in maker.inputs if v is not None and v not in seen]
            pending += new
            seen.update(new)


def _along(factor: np.ndarray, weights: Value, axis: int, following: int) -> np.ndarray | None:
    """One factor, or those of the slices of an axis of weights; None for others.

    In the result `following` axes come after the one that has them.
    """
    if factor.size == 1:
        return factor.reshape(())
    count = weights.shape[axis]
    if factor.shape[-1 - following :] != (count, *[1] * following) or prod(factor.shape) != count:
        return None
    return factor.reshape([-1, *[1] * (weights.rank - 1 - axis)])
