"""Lowerings of elementwise operators: arithmetic, comparison, logic, bits and casts.

TVM simplifies floats as if they were numbers: x - x and 0 * x to 0, x == x to true. What is written
here in another way keeps infinities and NaN.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import ml_dtypes
import numpy
from tvm import te, tirx
from tvm.ir import PrimType, Var

from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import (
    Function,
    Scalar,
    absolute,
    cast,
    elementwise,
    is_float,
    is_nan,
    kept_zero,
    maximum,
    minimum,
    multiply,
    nearest,
    wide,
)
from compiler.kernels.ops.float8 import decoded, encoded, number_of, recoded
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import call, dtype_of
from compiler.net.evaluation.quantisation import scaled_parts
from compiler.net.operators.elementwise import dtype_of_element


def _register(type: str, function: Function) -> None:
    lowering(type)(lambda context: elementwise(context, function))


def _zero(x: Scalar) -> Scalar:
    return tirx.const(0, dtype_of(x))


def _one(x: Scalar) -> Scalar:
    return tirx.const(1, dtype_of(x))


def _sign(x: Scalar) -> Scalar:
    """1, -1 or 0; NaN of NaN."""
    zero = _zero(x)
    one = _one(x)
    if dtype_of(x).startswith("u"):
        return tirx.Select(x > zero, one, zero)
    other = tirx.Select(tirx.EQ(x, zero), zero, x) if is_float(dtype_of(x)) else zero
    return tirx.Select(x > zero, one, tirx.Select(x < zero, zero - one, other))


def _negate(x: Scalar) -> Scalar:
    return x * tirx.const(-1, dtype_of(x)) if is_float(dtype_of(x)) else subtract(_zero(x), x)


def divide(a: Scalar, b: Scalar) -> Scalar:
    """Division; integers truncate towards zero, and give 0 for the divisor 0."""
    if is_float(dtype_of(a)):
        return kept_zero(a) / kept_zero(b)
    return wrapping.divide(a, b)


def subtract(a: Scalar, b: Scalar) -> Scalar:
    """A difference; of floats a sum, as TVM cancels equal terms of differences."""
    return a + _negate(b) if is_float(dtype_of(a)) else wrapping.subtract(a, b)


def sealed(condition: Scalar) -> Scalar:
    """A condition that TVM does not turn round: of NaN neither a > b nor a <= b holds."""
    return condition.astype("int8").astype("bool")


def equal(a: Scalar, b: Scalar) -> Scalar:
    """Whether two scalars are equal, which NaN is to nothing."""
    if is_float(dtype_of(a)):
        return sealed(tirx.all(a <= b, a >= b))
    return wrapping.equal(_comparable(a), _comparable(b))


def _modulo(a: Scalar, b: Scalar) -> Scalar:
    """The remainder with the sign of the divisor, as Python's."""
    rest = _remainder(a, b)
    if dtype_of(a).startswith("u"):
        return rest
    zero = _zero(a)
    below = tirx.all(rest < zero, b > zero)
    wrong = tirx.any(below, tirx.all(rest > zero, b < zero))
    return tirx.Select(wrong, wrapping.add(rest, b), rest)


def _remainder(a: Scalar, b: Scalar) -> Scalar:
    """The remainder with the sign of the dividend, as C's."""
    return call("fmod", a, b) if is_float(dtype_of(a)) else wrapping.remainder(a, b)


def _comparable(x: Scalar) -> Scalar:
    """A scalar as a type that TVM compares for LLVM: bool is none."""
    return x.astype("int8") if dtype_of(x) == "bool" else x


def _folded(pick: Callable[[Scalar, Scalar], Scalar], first: Scalar, *others: Scalar) -> Scalar:
    return reduce(pick, others, first)


def _complement(x: Scalar) -> Scalar:
    """All bits turned round: -1 - x."""
    return wrapping.subtract(subtract(_zero(x), _one(x)), x)


def _where(condition: Scalar, one: Scalar, other: Scalar) -> Scalar:
    """One or the other; both are read first, so that no load waits for the condition."""
    first, second = (Var("side", PrimType(dtype_of(x))) for x in (one, other))
    chosen = tirx.Select(condition, first, second)
    return tirx.Let(first, one, tirx.Let(second, other, chosen))


_register("Add", wrapping.add)
_register("Sub", subtract)
_register("Mul", multiply)
_register("Div", divide)
_register("Neg", _negate)
_register("Abs", absolute)
_register("Sign", _sign)
_register("Reciprocal", lambda x: _one(x) / x)
_register("Sqrt", tirx.sqrt)
_register("Floor", tirx.floor)
_register("Ceil", tirx.ceil)
_register("Round", tirx.nearbyint)
_register("IsNaN", is_nan)
_register("Equal", equal)
_register("Greater", lambda a, b: sealed(wrapping.greater(a, b)))
_register("GreaterOrEqual", lambda a, b: sealed(wrapping.greater_or_equal(a, b)))
_register("Less", lambda a, b: sealed(wrapping.less(a, b)))
_register("LessOrEqual", lambda a, b: sealed(wrapping.less_or_equal(a, b)))
_register("And", lambda a, b: tirx.all(a, b))
_register("Or", lambda a, b: tirx.any(a, b))
_register("Xor", lambda a, b: tirx.NE(_comparable(a), _comparable(b)))
_register("Not", tirx.Not)
_register("BitwiseAnd", lambda a, b: a & b)
_register("BitwiseOr", lambda a, b: a | b)
_register("BitwiseXor", lambda a, b: a ^ b)
_register("BitwiseNot", _complement)
_register("Where", _where)
_register("Max", partial(_folded, maximum))
_register("Min", partial(_folded, minimum))

for _name in (
    "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Exp Log Sin Sinh Tan Tanh Erf Sigmoid"
).split():
    _register(_name, partial(call, _name.lower()))


@lowering("Mod")
def lower_modulo(context: Context) -> te.Tensor:
    """Python's remainder, or C's with `fmod`."""
    return elementwise(context, _remainder if context["fmod"] else _modulo)


@lowering("BitShift")
def lower_bit_shift(context: Context) -> te.Tensor:
    """Shift left or right; a count outside the width shifts everything out."""
    left = context["direction"] == "LEFT"
    bits = numpy.dtype(context.output.dtype).itemsize * 8

    def function(x: Scalar, count: Scalar) -> Scalar:
        signed = not dtype_of(x).startswith("u")
        inside = wrapping.less(count, tirx.const(bits, dtype_of(count)))
        if signed:
            inside = tirx.all(inside, tirx.Not(wrapping.less(count, _zero(count))))
        by = tirx.Select(inside, count, tirx.const(bits - 1, dtype_of(count)))
        moved = wrapping.shift_left(x, by) if left else x >> by
        return moved if signed and not left else tirx.Select(inside, moved, _zero(x))

    return elementwise(context, function)


@lowering("Cast", "Expand", "Identity")
def lower_convert(context: Context) -> te.Tensor:
    """The first input, broadcast and converted to the result's type.

    A cast that `rounds` is to int32, of float32 numbers below 2^22.
    """
    dtype = context.output.dtype
    if context.operand(0).code != context.output.code:
        return recoded(context)
    rounds = "rounds" in context.attributes

    def body(*indices: Any) -> Scalar:
        x = context.element(0, indices)
        return nearest(x) if rounds else cast(x, dtype)

    return te.compute(context.output.shape, body, name=context.type)


@lowering("Clip")
def lower_clip(context: Context) -> te.Tensor:
    """Limit values to bounds, by default the least and the largest finite number; NaN stays.

    Bounds of a run that `are_numbers` take one instruction: LLVM does not know that none is NaN.
    """
    plain = "are_numbers" in context.attributes

    def body(*indices: Any) -> Scalar:
        x = context.element(0, indices)
        for position, pick in ((1, maximum), (2, minimum)):
            if context.has(position):
                bound = context.element(position, (0,))
                known = tirx.max if pick is maximum else tirx.min
                x = known(bound, x) if plain else pick(x, bound)
            elif is_float(dtype_of(x)):
                finfo: Any = ml_dtypes.finfo
                limits = finfo(dtype_of(x))
                bound = limits.max if pick is minimum else limits.min
                x = pick(x, tirx.const(float(bound), dtype_of(x)))
        return x

    return te.compute(context.output.shape, body, name="Clip")


@lowering("IsInf")
def lower_is_infinite(context: Context) -> te.Tensor:
    """Whether a value is infinite, of the signs asked for."""
    signs = [(1, "detect_positive"), (-1, "detect_negative")]
    wanted = [sign for sign, name in signs if context[name]]

    def function(x: Scalar) -> Scalar:
        infinity = tirx.infinity(dtype_of(x))
        tests = [tirx.EQ(x, infinity if sign > 0 else _negate(infinity)) for sign in wanted]
        return tirx.any(*tests) if tests else tirx.const(0, "bool")

    return elementwise(context, function)


@lowering("Pow")
def lower_power(context: Context) -> te.Tensor:
    """Powers; common constant exponents become multiplications, integers stay exact."""
    base, exponent = context.operand(0).dtype, context.operand(1).dtype
    constant = context.operand(1).array
    known = None if constant is None else float(constant.reshape(-1)[0])

    def function(x: Scalar, y: Scalar) -> Scalar:
        if not is_float(base) and not is_float(exponent):
            return _integer_power(cast(x, "int64"), cast(y, "int64"))
        if known in (1.0, 2.0, 3.0, 0.5, -1.0, 0.0) and is_float(base):
            one = _one(x)
            options = {1.0: x, 2.0: x * x, 3.0: x * x * x, -1.0: one / x, 0.0: one}
            return _root(x) if known == 0.5 else options[known]
        kind = "float64" if "float64" in (base, exponent) or not is_float(base) else "float32"
        return call("pow", x.astype(kind), y.astype(kind))

    return elementwise(context, function)


def _integer_power(x: Scalar, y: Scalar) -> Scalar:
    """A power of int64; of negative exponents what truncation leaves, and 0 for the base 0."""
    one = _one(x)
    zero = _zero(x)
    minus = tirx.const(-1, "int64")
    sign = tirx.Select(tirx.EQ(y & one, zero), one, minus)
    fraction = tirx.Select(tirx.EQ(x, one), one, tirx.Select(tirx.EQ(x, minus), sign, zero))
    power = tirx.call_pure_extern("int64", "flowloom_integer_power", x, y)
    return tirx.Select(y < zero, fraction, power)


def _root(x: Scalar) -> Scalar:
    """x to the power 0.5: unlike the square root +0 of -0, and +inf of -inf."""
    infinity = tirx.infinity(dtype_of(x))
    return tirx.Select(tirx.EQ(x, _negate(infinity)), infinity, absolute(tirx.sqrt(x)))


def _part(context: Context, position: int, indices: Sequence[Any]) -> Scalar:
    """The scale or zero point of an element; a float8 as float32."""
    operand = context.operand(position)
    parts = scaled_parts(context, position)
    if parts is None:
        at = [0] * len(operand.shape)
    else:
        axis, block = parts
        at = list(indices) if len(operand.shape) == len(indices) else [indices[axis]]
        if block > 1:
            at[axis] = tirx.floordiv(at[axis], block)
    number = context.tensor(position)(*at)
    return number_of(number, operand.code) if operand.code else number


@lowering("DequantizeLinear")
def lower_dequantise(context: Context) -> te.Tensor:
    """Integers less zero points, times scales; rounded to the scale's type after each step."""
    x, kind = decoded(context, 0), context.operand(1).dtype
    exact = wide(kind) if context.operand(0).code else "int32"

    def body(*indices: Any) -> Scalar:
        number = cast(x(*indices), exact)
        if context.has(2):
            number = subtract(number, cast(_part(context, 2, indices), exact))
        factors = cast(number, kind), _part(context, 1, indices)
        scaled = multiply(*(cast(factor, wide(kind)) for factor in factors))
        return cast(cast(scaled, kind), context.output.dtype)

    return te.compute(context.output.shape, body, name=context.type)


@lowering("QuantizeLinear")
def lower_quantise(context: Context) -> te.Tensor:
    """Numbers divided by scales, rounded to even, zero points added, and saturated."""
    precision, dtype = context["precision"], context.output.dtype
    kind = dtype_of_element(precision) if precision else context.operand(1).dtype

    def quotient(*indices: Any) -> Scalar:
        numbers = context.tensor()(*indices), _part(context, 1, indices)
        return cast(divide(*(cast(cast(number, kind), wide(kind)) for number in numbers)), kind)

    if context.output.code:
        return encoded(context, te.compute(context.output.shape, quotient, name="quotient"))

    def body(*indices: Any) -> Scalar:
        number = tirx.nearbyint(cast(quotient(*indices), wide(kind)))
        if context.has(2):
            zero = cast(_part(context, 2, indices), kind)
            number = cast(cast(number + cast(zero, wide(kind)), kind), wide(kind))
        for pick, limit in ((maximum, tirx.min_value), (minimum, tirx.max_value)):
            number = pick(number, cast(cast(limit(dtype), kind), wide(kind)))
        return cast(number, dtype)

    return te.compute(context.output.shape, body, name=context.type)
