"""Rules for element types that operators have since opsets after the normalised one."""

from compiler.frontend.rules.call import Call, rule
from compiler.net.graph import Value
from compiler.net.operators import OPERATORS

SIXTEEN_BITS = ("float16", "bfloat16")


def in_type(call: Call, value: Value, dtype: str) -> Value:
    """A value in another element type."""
    return call.builder.cast(value, dtype)


def in_float32(call: Call, value: Value) -> Value:
    """A value, in float32 if it is a float of 16 bits."""
    return in_type(call, value, "float32") if value.dtype in SIXTEEN_BITS else value


@rule("ReverseSequence")
def rewrite_in_float32(call: Call) -> list[Value]:
    """Computed in float32 for floats of 16 bits that the operator had not."""
    dtype = call.data.dtype
    if dtype not in SIXTEEN_BITS or dtype in OPERATORS[call.op_type].dtypes(0):
        return call.emit()
    results = call.emit([in_float32(call, value) for value in call.operands])
    return [in_type(call, results[0], dtype)]


@rule("OneHot")
def rewrite_one_hot(call: Call) -> list[Value]:
    """Values of 16 bits that the operator had not are float32 until the end."""
    indices, depth, values = call.operands
    if values.dtype in OPERATORS["OneHot"].dtypes(2):
        return call.emit()
    (result,) = call.emit([indices, depth, in_float32(call, values)])
    return [in_type(call, result, values.dtype)]


@rule("Celu")
def rewrite_celu(call: Call) -> list[Value]:
    """In float32, or, in float64, by its definition, with e**z - 1 as Elu has it below zero."""
    x = call.data
    alpha = call["alpha"]
    if x.dtype != "float64":
        return [in_type(call, call.emit([in_float32(call, x)])[0], x.dtype)]
    z = call.one("Div", x, call.scalar(alpha))
    if alpha < 0:  # z is above zero where it counts, and e**z - 1 is e**z (1 - e**-z)
        less = call.one("Elu", call.one("Neg", z), alpha=1.0)
        power = call.one("Neg", call.one("Mul", call.one("Exp", z), less))
    else:
        power = call.one("Elu", z, alpha=1.0)
    below = call.one("Mul", call.scalar(alpha), power)
    return [call.one("Where", call.one("Less", x, call.scalar(0)), below, x)]


@rule("BitShift")
def rewrite_bit_shift(call: Call) -> list[Value]:
    """Signed integers are shifted as unsigned ones.

    A right shift repeats the sign: of a negative number all bits are inverted before and after.
    """
    x, count = call.operands
    if x.dtype.startswith("u"):
        return call.emit()
    unsigned = f"u{x.dtype}"
    by = in_type(call, count, unsigned)
    if call.attributes["direction"] == "LEFT":
        (shifted,) = call.emit([in_type(call, x, unsigned), by])
        return [in_type(call, shifted, x.dtype)]
    zero, ones = call.scalar(0), call.scalar(-1)
    sign = call.one("Where", call.one("Less", x, zero), ones, zero)
    bits = in_type(call, call.one("BitwiseXor", x, sign), unsigned)
    shifted = in_type(call, call.emit([bits, by])[0], x.dtype)
    return [call.one("BitwiseXor", shifted, sign)]
