"""Contractions of dequantised bytes as contractions of the bytes themselves.

`Conv(Dequantize(x), Dequantize(w))` is `Cast(ConvInteger(x, w)) * (x_scale * w_scale)`, which
differs from it by rounding only. Operators that only move elements, and maxima, are computed on the
integers; what is quantised again as it was is the integers themselves.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import replace

import numpy as np

from compiler.frontend.builder import NORMALISED_OPSET, Builder
from compiler.frontend.evaluate import element_type
from compiler.frontend.graph import Dequantised, Graph, Inputs, Quantised, Value
from compiler.frontend.quantised.walk import Walk
from compiler.frontend.rules.call import Call
from compiler.frontend.rules.quantised import (
    float8_convolution,
    integer_convolution,
    integer_matmul,
    less_zero_point,
)
from compiler.net.node import Node
from compiler.net.operators import OPERATORS
from compiler.support.registry import Registrar

# Division of scaled sums by the scale of what they are quantised to, without a division.
#
# `(sums * s + b) / y` is `sums * (s / y) + b / y`, which differs from it by rounding only: it is
# what onnxruntime's quantised convolutions compute. Of exact numbers, as dequantised integers are,
# the quotient stays one: halves would be rounded otherwise than by ONNX's formula.
LONGEST_CHAIN = 8
"""The most operators between a quantisation and the sums that its scale divides."""

_CONTRACTIONS: dict[str, Callable[[Call], Value | None]] = {}
_contracts = Registrar(_CONTRACTIONS)


def is_of_sums(
    value: Value, makers: Mapping[Value, Node[Value]], sums: Set[Value], depth: int = 0
) -> bool:
    """Whether a value has the scaled sums of a contraction among its terms."""
    if value in sums:
        return True
    maker = makers.get(value)
    if maker is None or maker.type not in ("Add", "Relu") or depth > LONGEST_CHAIN:
        return False
    terms = [term for term in maker.inputs if term is not None]
    return any(is_of_sums(term, makers, sums, depth + 1) for term in terms)


def divided(
    builder: Builder,
    value: Value,
    scale: Value,
    makers: Mapping[Value, Node[Value]],
    depth: int = 0,
) -> Value | None:
    """A value divided by a positive constant; None unless constants scale all its terms."""
    if value.array is not None:
        return builder.one("Div", value, scale)
    maker = makers.get(value)
    if maker is None or depth > LONGEST_CHAIN:
        return None
    if maker.type == "Mul":
        return _factor(builder, maker, scale)
    if maker.type == "Relu":
        inside = divided(builder, maker.operand(0), scale, makers, depth + 1)
        return None if inside is None else builder.one("Relu", inside)
    if maker.type == "Add":
        terms = [divided(builder, maker.operand(i), scale, makers, depth + 1) for i in (0, 1)]
        return None if None in terms else builder.one("Add", *terms)
    return None


def _factor(builder: Builder, maker: Node[Value], scale: Value) -> Value | None:
    """A multiplication by a constant, divided."""
    one, other = maker.operand(0), maker.operand(1)
    if other.array is None:
        one, other = other, one
    if other.array is None:
        return None
    factor = builder.one("Div", other, scale)
    result = builder.one("Mul", one, factor)
    code = maker.output.code
    if isinstance(code, Dequantised) and code.whole:
        result.code = replace(code, scale=factor)
    return result


def is_divisor(value: Value) -> bool:
    """Whether a value is a positive constant number."""
    return value.array is not None and not value.shape and bool(np.all(value.array > 0))


KEEP_CODES = frozenset(name for name, entry in OPERATORS.items() if entry.keeps_codes)
"""Operators on one tensor that give the same of its integers as of its numbers."""

REARRANGING = KEEP_CODES - {"Relu"}
"""Operators whose results are elements of their first operand."""

WITH_INFINITIES = ("float8_e5m2",)
"""Types that have infinities, which quantisation may saturate."""

_LARGEST_SCALE = float(np.finfo("float32").max) / (1 << 16)
"""The largest scale of which any integer of 16 bits is a finite multiple."""


def contracts_floats(graph: Graph) -> bool:
    """Whether a contraction multiplies floats that both were dequantised from bytes."""
    operands = (op.inputs[:2] for op in graph.operators if op.type in _CONTRACTIONS)
    codes = ([value and value.code for value in pair] for pair in operands)
    return any(
        all(isinstance(code, Dequantised) and (code.is_bytes or code.is_float8) for code in pair)
        for pair in codes
    )


class Contracting(Walk):
    """Contracts integers where both operands of a contraction that `suits` are dequantised bytes.

    Integers are moved instead of the numbers that they stand for; without `suits` that is all.
    `sums` are the values that contractions of bytes compute.
    """

    def __init__(self, suits: Callable[[Call], bool] | None):
        super().__init__()
        self.suits = suits
        self.sums: set[Value] = set()

    def replacement(self, operator: Node[Value]) -> Value | None:
        """The value of moved or contracted integers, or of divided sums."""
        if operator.type in KEEP_CODES:
            return _moved(self._call(operator))
        return None if self.suits is None else self._contracted(operator, self.suits)

    def renumbered(self, value: Value) -> Value | None:
        """The integers themselves for numbers that are quantised as they were.

        Other quantised values are those of numbers of the new graph.
        """
        if not isinstance(value.code, Quantised):
            return None
        value.code = replace(value.code, number=self.replaced(value.code.number))
        return self._before(value, value.code)

    def _contracted(self, operator: Node[Value], suits: Callable[[Call], bool]) -> Value | None:
        """The value instead of that of a contraction, or of a division of its sums."""
        make = _CONTRACTIONS.get(operator.type)
        call = self._call(operator)
        if operator.type == "Div" and is_divisor(operator.operand(1)):
            number = operator.operand(0)
            if not is_of_sums(number, self.makers, self.sums):
                return None
            return divided(self.builder, number, operator.operand(1), self.makers)
        result = make(call) if make and suits(call) else None
        if result is not None:
            self.sums.add(result)
        return result

    def _call(self, operator: Node[Value]) -> Call:
        return Call(
            op_type=operator.type,
            version=NORMALISED_OPSET,
            inputs=[*operator.inputs],
            attributes=dict(operator.attributes),
            used=[not value.unknown for value in operator.outputs],
            builder=self.builder,
        )

    def _before(self, value: Value, quantised: Quantised) -> Value | None:
        """The integers that were dequantised and are quantised again alike."""
        before = quantised.number.code
        if not isinstance(before, Dequantised) or before.integers.dtype != value.dtype:
            return None
        alike = is_same(before.scale, quantised.scale) and is_same(before.zero, quantised.zero)
        alike = alike and value.dtype not in WITH_INFINITIES
        scale = before.scale.array
        if scale is not None and not (np.abs(scale) <= _LARGEST_SCALE).all():
            return None  # numbers that overflow do not give their integers again
        return self.replaced(before.integers) if alike and before.whole else None


def is_same(one: Value | None, other: Value | None) -> bool:
    """Whether two scales or zero points are equal; a zero point that is left out is 0."""
    if one is other:
        return True
    arrays = [np.zeros(()) if value is None else value.array for value in (one, other)]
    first, second = arrays
    return first is not None and second is not None and np.array_equal(first, second)


def _moved(call: Call) -> Value | None:
    """A moved tensor by way of its integers, if one scale holds for all of it."""
    code = call.data.code
    if not isinstance(code, Dequantised) or not code.whole or any(call.used[1:]):
        return None
    if "float" in code.integers.dtype and not code.is_float8:
        return None
    dtypes = OPERATORS["Max" if call.op_type == "Relu" else call.op_type].dtypes(0)
    if code.integers.dtype not in dtypes:
        return None
    if call.op_type in ("MaxPool", "Relu") and not _is_positive(code.scale):
        return None
    inputs: Inputs = [code.integers, *call.inputs[1:]]
    if call.op_type == "Relu":
        zero = code.zero or call.builder.constant(0, code.integers.dtype)
        return _number(call, replace(code, integers=call.one("Max", code.integers, zero)))
    (integers,) = call.builder.emit(call.op_type, inputs, call.attributes)
    return _number(call, replace(code, integers=integers))


def _number(call: Call, code: Dequantised) -> Value:
    """The numbers that integers stand for."""
    exact = code.integers
    if not code.is_float8:
        exact = less_zero_point(call, exact, code.zero, "int32")
    value = call.one("Cast", exact, to=element_type(code.scale.dtype))
    result = call.one("Mul", value, code.scale)
    result.code = code
    return result


def _is_positive(scale: Value) -> bool:
    return scale.array is not None and bool((scale.array > 0).all())


def _operands(call: Call, weight_axis: int) -> tuple[Dequantised, Dequantised] | None:
    """The bytes that a contraction's operands stand for; the weight may have a scale by channel."""
    left, right = call.data.code, call.operand(1).code
    if not isinstance(left, Dequantised) or not isinstance(right, Dequantised):
        return None
    fits = left.whole and (right.whole or right.axis == weight_axis)
    alike = (left.is_bytes and right.is_bytes) or (left.is_float8 and right.is_float8)
    return (left, right) if fits and alike else None


def _scaled(call: Call, sums: Value, scale: Value) -> Value:
    """Sums as numbers."""
    if sums.dtype != scale.dtype:
        sums = call.one("Cast", sums, to=element_type(scale.dtype))
    return call.one("Mul", sums, scale)


@_contracts("Conv")
def _contract_conv(call: Call) -> Value | None:
    operands = _operands(call, 0)
    if operands is None or operands[1].integers.array is None:
        return None
    left, right = operands
    sums = (
        float8_convolution(call, left.integers, right.integers)
        if left.is_float8
        else integer_convolution(call, left.integers, right.integers, (left.zero, right.zero))
    )
    column = [-1, *[1] * (sums.rank - 2)]
    scale = right.scale if right.whole else call.reshaped(right.scale, column)
    result = _scaled(call, sums, call.one("Mul", left.scale, scale))
    bias = call.input(2)
    return result if bias is None else call.one("Add", result, call.reshaped(bias, column))


@_contracts("MatMul")
def _contract_matmul(call: Call) -> Value | None:
    right = call.operand(1)
    operands = _operands(call, right.rank - 1) if right.rank > 1 else None
    if operands is None or (operands[0].is_float8 and call.data.rank < 2):
        return None
    return _matmul(call, *operands)


def _matmul(call: Call, left: Dequantised, right: Dequantised) -> Value:
    if left.is_float8:
        sums = call.one("MatMulFloat8", left.integers, right.integers)
    else:
        sums = integer_matmul(call, left.integers, right.integers, (left.zero, right.zero))
    return _scaled(call, sums, call.one("Mul", left.scale, right.scale))


@_contracts("Gemm")
def _contract_gemm(call: Call) -> Value | None:
    operands = _operands(call, 0 if call["transB"] else 1)
    if operands is None:
        return None
    left, right = operands
    left = _flipped(call, left) if call["transA"] else left
    right = _flipped(call, right) if call["transB"] else right
    result = _matmul(call, left, right)
    alpha = call["alpha"]
    beta = call["beta"]
    addend = call.input(2)
    if alpha != 1:
        result = call.one("Mul", result, call.scalar(alpha))
    if addend is None:
        return result
    addend = addend if beta == 1 else call.one("Mul", addend, call.scalar(beta))
    return call.one("Add", result, addend)


def _flipped(call: Call, code: Dequantised) -> Dequantised:
    integers = call.one("Transpose", code.integers, perm=[1, 0])
    return replace(code, integers=integers, axis=1 - code.axis)
