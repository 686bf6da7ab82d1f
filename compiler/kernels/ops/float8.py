"""Floats of a byte in kernels: their bytes as float32, which holds them all, and back.

e4m3fn has no infinities and one NaN of each sign, 0x7f and 0xff; e5m2 is as IEEE 754 has it.
"""

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from compiler.kernels.ops.common import Scalar, cast
from compiler.kernels.ops.lowering import Context

_BIAS, _BITS = 127, 23
"""The bias of float32's exponent, and the bits of its mantissa."""

_INFINITY = 0x7F800000


@dataclass(frozen=True)
class Float8:
    """A format: the bias of its exponent, the bits of its mantissa, its largest codes."""

    bias: int
    mantissa: int
    largest: int
    nan: int

    @property
    def overflowed(self) -> int:
        """The code of numbers beyond the largest: infinity, or NaN where there is none."""
        return self.largest + 1

    @property
    def shift(self) -> int:
        """How many bits shorter its mantissa is than float32's."""
        return _BITS - self.mantissa

    @property
    def least_power(self) -> int:
        """The power of two that its subnormal numbers are multiples of."""
        return 1 - self.bias - self.mantissa


FLOAT8_FORMATS = {
    "float8_e4m3fn": Float8(7, 3, 0x7E, 0x7F),
    "float8_e5m2": Float8(15, 2, 0x7B, 0x7E),
}
"""The formats by dtype name."""


def recoded(context: Context) -> te.Tensor:
    """The first input of a Cast, where it or the result has float8s."""
    number = decoded(context, 0)
    dtype = context.output.dtype
    if context.output.code:
        return encoded(context, number)
    return te.compute(number.shape, lambda *i: cast(number(*i), dtype), name="Cast")


def decoded(context: Context, position: int) -> te.Tensor:
    """An input's numbers as a tensor; those of float8s as float32."""
    tensor = context.tensor(position)
    code = context.operand(position).code
    if not code:
        return tensor
    return te.compute(tensor.shape, lambda *i: number_of(tensor(*i), code), name="decoded")


def number_of(byte: Scalar, code: str) -> Scalar:
    """The number of a byte of a format, as float32."""
    form = FLOAT8_FORMATS[code]
    bits = byte.astype("int32")
    size = bits & _int(0x7F)
    moved = size << _int(form.shift)
    normal = moved + _int(_BIAS - form.bias << _BITS)
    # beyond the largest code all bits of the exponent are set, as in float32's NaN and infinity
    wide = tirx.Select(size > _int(form.largest), moved | _int(_INFINITY), normal)
    small = size.astype("float32") * tirx.const(2.0**form.least_power, "float32")
    least = _int(1 << form.mantissa)
    exact = tirx.Select(size < least, tirx.reinterpret("int32", small), wide)
    return tirx.reinterpret("float32", exact | (bits & _int(0x80)) << _int(24))


def encoded(context: Context, number: te.Tensor) -> te.Tensor:
    """The bytes of numbers in the result's format, rounded to even; NaN stays."""
    form = FLOAT8_FORMATS[context.output.code]
    most = form.largest if context["saturate"] else form.overflowed

    def bits_of(*indices: Any) -> Scalar:
        return tirx.reinterpret("int32", cast(number(*indices), "float32"))

    bits = te.compute(number.shape, bits_of, name="bits")
    size = te.compute(number.shape, lambda *i: _size(bits(*i)), name="size")

    def code_of(*indices: Any) -> Scalar:
        code = _rounded(size(*indices), form, most)
        return (code | (bits(*indices) >> _int(24)) & _int(0x80)).astype("uint8")

    return te.compute(number.shape, code_of, name="encoded")


def _size(bits: Scalar) -> Scalar:
    """The bits of a float32 without its sign; one above infinity's for NaN."""
    return tirx.min(bits & _int(0x7FFFFFFF), _int(_INFINITY + 1))


def _rounded(size: Scalar, form: Float8, most: int) -> Scalar:
    """The code of the float32 with these bits, which has no sign."""
    shift = form.shift
    least = _BIAS - form.bias + 1
    odd = size >> _int(shift) & _int(1)
    normal = size + _int((1 << shift - 1) - 1) + odd
    normal = (normal >> _int(shift)) - _int(_BIAS - form.bias << form.mantissa)
    # the unit in the last place of this number is the least subnormal one: adding to it rounds
    unit = tirx.const(2.0 ** (form.least_power + _BITS), "float32")
    small = tirx.reinterpret("float32", size) + unit
    small = tirx.reinterpret("int32", small) - _int(form.least_power + _BITS + _BIAS << _BITS)
    code = tirx.min(tirx.Select(size < _int(least << _BITS), small, normal), _int(most))
    return tirx.Select(size > _int(_INFINITY), _int(form.nan), code)


def _int(value: int) -> Scalar:
    return tirx.const(value, "int32")
