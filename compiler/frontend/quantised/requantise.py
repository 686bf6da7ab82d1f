"""Division of scaled sums by the scale of what they are quantised to, without a division.

`(sums * s + b) / y` is `sums * (s / y) + b / y`, which differs from it by rounding only: it is what
onnxruntime's quantised convolutions compute. Of exact numbers, as dequantised integers are, the
quotient stays one: halves would be rounded otherwise than by ONNX's formula.
"""

from collections.abc import Mapping, Set
from dataclasses import replace

import numpy as np

from compiler.frontend.builder import Builder
from compiler.frontend.graph import Dequantised, Operator, Value

LONGEST_CHAIN = 8
"""The most operators between a quantisation and the sums that its scale divides."""


def is_of_sums(
    value: Value, makers: Mapping[Value, Operator], sums: Set[Value], depth: int = 0
) -> bool:
    """Whether a value has the scaled sums of a contraction among its terms."""
    if value in sums:
        return True
    maker = makers.get(value)
    if maker is None or maker.op_type not in ("Add", "Relu") or depth > LONGEST_CHAIN:
        return False
    terms = [term for term in maker.inputs if term is not None]
    return any(is_of_sums(term, makers, sums, depth + 1) for term in terms)


def divided(
    builder: Builder, value: Value, scale: Value, makers: Mapping[Value, Operator], depth: int = 0
) -> Value | None:
    """A value divided by a positive constant; None unless constants scale all its terms."""
    if value.array is not None:
        return builder.one("Div", value, scale)
    maker = makers.get(value)
    if maker is None or depth > LONGEST_CHAIN:
        return None
    if maker.op_type == "Mul":
        return _factor(builder, maker, scale)
    if maker.op_type == "Relu":
        inside = divided(builder, maker.operand(0), scale, makers, depth + 1)
        return None if inside is None else builder.one("Relu", inside)
    if maker.op_type == "Add":
        terms = [divided(builder, maker.operand(i), scale, makers, depth + 1) for i in (0, 1)]
        return None if None in terms else builder.one("Add", *terms)
    return None


def _factor(builder: Builder, maker: Operator, scale: Value) -> Value | None:
    """A multiplication by a constant, divided."""
    one, other = maker.operand(0), maker.operand(1)
    if other.array is None:
        one, other = other, one
    if other.array is None:
        return None
    factor = builder.one("Div", other, scale)
    result, code = builder.one("Mul", one, factor), maker.output.code
    if isinstance(code, Dequantised) and code.whole:
        result.code = replace(code, scale=factor)
    return result


def is_divisor(value: Value) -> bool:
    """Whether a value is a positive constant number."""
    return value.array is not None and not value.shape and bool(np.all(value.array > 0))
