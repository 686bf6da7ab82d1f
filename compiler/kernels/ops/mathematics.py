"""Mathematical functions in LLVM, of scalars and of vectors, in place of scalar calls of libm.

Each is a branch-free internal function that is always inlined, so LLVM's loop vectoriser sees
plain arithmetic in one of scalars. Errors are below 4 units in the last place of float32 (exp,
expm1, log, log1p, tanh, sigmoid, erf, erfc), infinities, NaN and subnormal numbers included.
"""

import re
import struct
from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

from llvmlite import ir
from tvm import tirx

FLOAT, INT, BOOL = ir.FloatType(), ir.IntType(32), ir.IntType(1)

_POWER = """
define internal i64 @flowloom_integer_power(i64 %base, i64 %exponent) alwaysinline {
start:
  %negative = icmp slt i64 %exponent, 0
  %first = select i1 %negative, i64 0, i64 %exponent
  br label %loop
loop:
  %e = phi i64 [ %first, %start ], [ %rest, %loop ]
  %b = phi i64 [ %base, %start ], [ %square, %loop ]
  %p = phi i64 [ 1, %start ], [ %next, %loop ]
  %odd = trunc i64 %e to i1
  %taken = mul i64 %p, %b
  %next = select i1 %odd, i64 %taken, i64 %p
  %square = mul i64 %b, %b
  %rest = lshr i64 %e, 1
  %done = icmp eq i64 %rest, 0
  br i1 %done, label %end, label %loop
end:
  %result = select i1 %negative, i64 0, i64 %next
  ret i64 %result
}
"""


_FUNCTION = re.compile(r"@(flowloom_([a-z0-9]+)(?:_of_(\d+))?)\(")
_FMA = re.compile(r"@llvm\.fmuladd\.(?:v(\d+))?f32\(")
_DECLARED = re.compile(r"^declare .*@(?:flowloom_|llvm\.fmuladd\.(?:v\d+)?f32\().*\n?", re.M)


def _like(type: ir.Type, element: ir.Type) -> ir.Type:
    """A type of other elements, a vector of as many if it is one."""
    return ir.VectorType(element, type.count) if isinstance(type, ir.VectorType) else element


class Number:
    """Floats or integers under construction, one or a vector, with Python's operators."""

    def __init__(self, builder: ir.IRBuilder, value: ir.Value):
        self.builder = builder
        self.value = value

    def constant(self, number: float) -> "Number":
        """A constant of the same type."""
        type = self.value.type
        exact = (
            struct.unpack("f", struct.pack("f", number))[0]
            if type == _like(type, FLOAT)
            else int(number)
        )
        every = [exact] * type.count if isinstance(type, ir.VectorType) else exact
        return Number(self.builder, ir.Constant(type, every))

    def like(self, other: "Number | float") -> ir.Value:
        """The value of a number, or of a constant of this type."""
        return other.value if isinstance(other, Number) else self.constant(other).value

    def _make(self, name: str, other: "Number | float", swap: bool = False) -> "Number":
        pair = [self.value, self.like(other)]
        prefix = "f" if self.value.type == _like(self.value.type, FLOAT) else ""
        left, right = reversed(pair) if swap else pair
        return Number(self.builder, getattr(self.builder, prefix + name)(left, right))

    def __add__(self, other: "Number | float") -> "Number":
        return self._make("add", other)

    def __sub__(self, other: "Number | float") -> "Number":
        return self._make("sub", other)

    def __rsub__(self, other: "Number | float") -> "Number":
        return self._make("sub", other, swap=True)

    def __mul__(self, other: "Number | float") -> "Number":
        return self._make("mul", other)

    def __truediv__(self, other: "Number | float") -> "Number":
        return self._make("div", other)

    def __rtruediv__(self, other: "Number | float") -> "Number":
        return self._make("div", other, swap=True)

    def __neg__(self) -> "Number":
        return Number(self.builder, self.builder.fneg(self.value))

    def __lt__(self, other: "Number | float") -> "Number":
        compare = self.builder.fcmp_ordered
        return Number(self.builder, compare("<", self.value, self.like(other)))

    def __gt__(self, other: "Number | float") -> "Number":
        compare = self.builder.fcmp_ordered
        return Number(self.builder, compare(">", self.value, self.like(other)))

    def same(self, other: "Number | float") -> "Number":
        """Whether a float equals another; a NaN equals none."""
        return Number(self.builder, self.builder.fcmp_ordered("==", self.value, self.like(other)))

    def bits(self) -> "Number":
        """The bits of a float as an integer."""
        return Number(self.builder, self.builder.bitcast(self.value, _like(self.value.type, INT)))

    def as_float(self) -> "Number":
        """The float that has these bits."""
        return Number(self.builder, self.builder.bitcast(self.value, _like(self.value.type, FLOAT)))

    def to_float(self) -> "Number":
        """The float nearest to an integer."""
        return Number(self.builder, self.builder.sitofp(self.value, _like(self.value.type, FLOAT)))

    def shift(self, count: int) -> "Number":
        """Shift bits left, or right with the sign for a negative count."""
        method = self.builder.shl if count > 0 else self.builder.ashr
        return Number(self.builder, method(self.value, self.like(abs(count))))

    def mask(self, bits: int) -> "Number":
        """Bitwise and."""
        return Number(self.builder, self.builder.and_(self.value, self.like(bits)))

    def merge(self, other: "Number") -> "Number":
        """Bitwise or."""
        return Number(self.builder, self.builder.or_(self.value, other.value))

    def absolute(self) -> "Number":
        """The absolute value of a float."""
        return self.bits().mask(0x7FFFFFFF).as_float()

    def with_sign(self, other: "Number") -> "Number":
        """This float's magnitude with the sign of another."""
        sign = other.bits().mask(0x80000000)
        return self.bits().mask(0x7FFFFFFF).merge(sign).as_float()


def select(condition: Number, yes: Number | float, no: Number | float) -> Number:
    """`yes` where a condition holds, else `no`; one of them must be a Number."""
    like = yes if isinstance(yes, Number) else no
    assert isinstance(like, Number)
    chosen = condition.builder.select(condition.value, like.like(yes), like.like(no))
    return Number(condition.builder, chosen)


def fma(a: Number, b: Number | float, c: Number | float) -> Number:
    """`a * b + c`, rounded once where the CPU can."""
    type = a.value.type
    lanes = f"v{type.count}" if isinstance(type, ir.VectorType) else ""
    kind = ir.FunctionType(type, [type] * 3)
    function = a.builder.module.declare_intrinsic(f"llvm.fmuladd.{lanes}f32", fnty=kind)
    return Number(a.builder, a.builder.call(function, [a.value, a.like(b), a.like(c)]))


def horner(x: Number, coefficients: Sequence[float]) -> Number:
    """A polynomial, highest power first."""
    first = x.constant(coefficients[0])
    return reduce(lambda total, c: fma(total, x, c), coefficients[1:], first)


_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1)
_ROUND = 12582912.0


def _exp_parts(x: Number) -> tuple[Number, Number]:
    """Cephes' expf: `exp(x) = 2**n * (1 + q)`; returns q and n for x in [-150, 130]."""
    shifted = fma(x, 1.44269504088896341, _ROUND)
    whole = shifted - _ROUND
    rest = fma(whole, 2.12194440e-4, fma(whole, -0.693359375, x))
    q = fma(fma(horner(rest, _EXP), rest, 5.0000001201e-1), rest * rest, rest)
    return q, shifted.bits() - 0x4B400000


def _power_of_two(n: Number) -> Number:
    return (n + 127).shift(23).as_float()


def exp(x: Number) -> Number:
    """e**x; the power of two is applied in halves, for subnormal results."""
    low = select(x < -150.0, -150.0, x)
    q, n = _exp_parts(select(low > 130.0, 130.0, low))
    half = n.shift(-1)
    return (q + 1.0) * _power_of_two(half) * _power_of_two(n - half)


def decay(x: Number) -> Number:
    """e**x where x is not above zero; a constant makes results subnormal at the end."""
    q, n = _exp_parts(select(x < -104.0, -104.0, x))
    return (q + 1.0) * _power_of_two(n + 64) * 2.0**-64


def expm1(x: Number) -> Number:
    """e**x - 1 without cancellation near 0."""
    low = select(x < -50.0, -50.0, x)
    q, n = _exp_parts(select(low > 130.0, 130.0, low))
    half = n.shift(-1)
    small, scale = _power_of_two(half), _power_of_two(n - half)
    return fma(q * small, scale, small * scale - 1.0)


_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


def log(x: Number) -> Number:
    """Natural logarithm (Cephes' logf): -inf at 0, NaN below."""
    tiny = x < 1.17549435e-38
    scaled = select(tiny, x * 8388608.0, x)
    bits = scaled.bits()
    mantissa = bits.mask(0x007FFFFF).merge(bits.constant(0x3F000000)).as_float()
    exponent = bits.shift(-23).mask(0xFF).to_float() - 126.0 - select(tiny, x.constant(23.0), 0.0)
    low = mantissa < 0.70710678118654752
    e = select(low, exponent - 1.0, exponent)
    m = select(low, mantissa + mantissa, mantissa) - 1.0
    square = m * m
    tail = fma(e, -2.12194440e-4, horner(m, _LOG) * m * square)
    result = fma(e, 0.693359375, fma(square, -0.5, tail) + m)
    result = select(x > 3.4028234e38, x, result)
    result = select(x < 0.0, float("nan"), select(x.same(0.0), float("-inf"), result))
    nan = Number(x.builder, x.builder.fcmp_unordered("uno", x.value, x.value))
    return select(nan, x, result)


def log1p(x: Number) -> Number:
    """log(1 + x): the rounding error of the sum is put back."""
    total = x + 1.0
    lost = x - (total - 1.0)
    infinite = total > 3.4028234e38
    return log(total) + select(infinite, 0.0, lost / total)


_TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1)


def tanh(x: Number) -> Number:
    """Hyperbolic tangent (Cephes' tanhf)."""
    size = x.absolute()
    square = x * x
    small = fma(fma(horner(square, _TANH), square, -3.33332819422e-1) * square, x, x)
    power = decay(size * -2.0)
    large = 1.0 - power * 2.0 / (power + 1.0)
    return select(size < 0.625, small, select(x < 0.0, 0.0 - large, large))


def sigmoid(x: Number) -> Number:
    """1 / (1 + e**-x), accurate for very negative x too."""
    power = decay(-x.absolute())
    upper = 1.0 / (power + 1.0)
    return select(x < 0.0, power * upper, upper)


_ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1)


def erf(x: Number) -> Number:
    """Error function, by N. Juffa's minimax polynomials."""
    size = x.absolute()
    t = select(size > 4.0, 4.0, size)
    s = t * t
    high = fma(t, -1.72853470e-5, 3.83197126e-4)
    r = fma(high, s, fma(t, -3.88396438e-3, 2.42546219e-2))
    r = fma(fma(fma(r, t, -1.06777877e-1), t, -6.34846687e-1), t, -1.28717512e-1)
    large = (1.0 - decay(fma(r, t, -t))).with_sign(x)
    small = fma(fma(horner(s, _ERF_SMALL), s, 1.28379166e-1), x, x)
    return select(size > 0.921875, large, small)


_ERFC = (
    -4.01139259e-4, -1.23075210e-3, 1.31355342e-3, 8.63227434e-3, -8.05991981e-3, -5.42046614e-2,
    1.64055392e-1, -1.66031361e-1, -9.27639827e-2, 2.76978403e-1,
)  # fmt: skip


def erfc(x: Number) -> Number:
    """1 - erf(x), also where that is tiny (N. Juffa's erfcf).

    A polynomial in (t - 2) / (t + 2) is (1 + 2 t) e**(t**2) erfc(t) - 1; the quotients and the
    square are corrected by what rounding left of them.
    """
    t = x.absolute()
    t = select(t > 11.0, 11.0, t)
    inverse = 1.0 / (t + 2.0)
    rough = (t - 2.0) * inverse
    left = fma(rough, -t, fma(rough + 1.0, -2.0, t))
    p = horner(fma(inverse, left, rough), _ERFC)
    half = 0.5 / (t + 0.5)
    quotient = fma(p, half, half)
    rest = fma(quotient + quotient, -t, 1.0) + (p - quotient)
    scaled = fma(rest, half, quotient)
    square = t * t
    power = exp(-square)
    tail = fma(scaled * power, fma(t, -t, square), scaled * power)
    return select(x < 0.0, 2.0 - tail, tail)


def bfloat16(x: Number) -> Number:
    """The nearest bfloat16, the even one of two, as a float32; a NaN is quiet then.

    The last bit is found by shifts: a mask would look like a remainder, whose loops LLVM does not
    vectorise.
    """
    bits = x.bits()
    quiet = bits.constant(0x00400000)
    upper = select(x.same(x), bits + 32767 - bits.shift(15).shift(-31), bits.merge(quiet))
    return upper.mask(-65536).as_float()


FUNCTIONS: dict[str, Callable[[Number], Number]] = {
    f.__name__: f for f in (exp, decay, expm1, log, log1p, tanh, sigmoid, erf, erfc, bfloat16)
}
"""The float32 functions that replace libm's."""


def vector_symbol(symbol: str, lanes: int) -> str:
    """The name of a function's form for vectors of so many elements."""
    return symbol if lanes == 1 else f"{symbol}_of_{lanes}"


@cache
def definition(name: str, lanes: int = 1) -> str:
    """The LLVM text of one function, of a scalar or a vector, and of no intrinsics."""
    module = ir.Module()
    type = FLOAT if lanes == 1 else ir.VectorType(FLOAT, lanes)
    symbol = vector_symbol(f"flowloom_{name}", lanes)
    function = ir.Function(module, ir.FunctionType(type, [type]), symbol)
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(FUNCTIONS[name](Number(builder, function.args[0])).value)
    return str(function)


def link_mathematics(text: str) -> str:
    """Add the definitions of the functions that LLVM code declares."""
    declared = {(name, int(lanes or 1)) for _, name, lanes in _FUNCTION.findall(text)}
    parts = [definition(name, n) for name, n in sorted(declared) if name in FUNCTIONS]
    if "@flowloom_integer_power(" in text:
        parts.append(_POWER)
    linked = "\n".join([_DECLARED.sub("", text), *parts])
    return "\n".join([linked, *sorted({_declared_fma(lanes) for lanes in _FMA.findall(linked)})])


def _declared_fma(lanes: str) -> str:
    type, suffix = (f"<{lanes} x float>", f"v{lanes}f32") if lanes else ("float", "f32")
    return f"declare {type} @llvm.fmuladd.{suffix}({type}, {type}, {type})"


def dtype_of(x: Any) -> str:
    """The dtype name of a scalar expression."""
    return str(x.ty.dtype)


def call(name: str, *arguments: Any) -> Any:
    """A mathematical function of float32 or float64: ours where there is one, else libm's."""
    dtype = dtype_of(arguments[0])
    if dtype == "float32":
        symbol = f"flowloom_{name}" if name in FUNCTIONS else f"{name}f"
        return tirx.call_pure_extern("float32", symbol, *arguments)
    if name == "sigmoid":
        return 1.0 / (1.0 + call("exp", -arguments[0]))
    return tirx.call_pure_extern(dtype, name, *arguments)
