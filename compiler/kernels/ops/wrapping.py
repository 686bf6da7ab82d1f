"""Arithmetic of integers from data, which wraps around modulo 2**bits as numpy's does.

TVM simplifies integers as if they were unbounded, takes the ends of a type for infinite when it
compares, and lets LLVM assume that nothing overflows; in C++ no signed integer may. Here each step
is a call that nothing sees through until TVM has simplified the code around it. Indices, which
never overflow, need none of this.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy
import tvm_ffi
from tvm import IRModule, tirx
from tvm.ir import Call, Op, PrimType
from tvm.ir import _ffi_api as _operators
from tvm.ir.op import register_op_attr
from tvm.tirx import CallEffectKind, IntImm, PrimFunc

_PREFIX = "tirx.flowloom_wrapping_"

_LLVM_CALL = re.compile(
    r"(?<== )(?:tail )?call (\S+|<[^>]*>) @flowloom_wrapping_([a-z]+)_\w+\(\1 (.*), \1 (.*)\).*"
)
"""The call that stands for an instruction of LLVM without flags: its type, name and operands."""

_LLVM_DECLARATION = re.compile(r"^declare .*@flowloom_wrapping_.*\n", re.M)


def _quotient(a: int, b: int) -> int:
    size = abs(a) // abs(b) if b else 0
    return size if (a < 0) == (b < 0) else -size


_EXACT: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _quotient,
    "remainder": lambda a, b: a - b * _quotient(a, b) if b else 0,
    "shift_left": lambda a, b: a << b,
    "less": lambda a, b: a < b,
    "less_or_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
}
"""The steps of arithmetic, of Python's integers."""

_PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "add": tirx.Add,
    "subtract": tirx.Sub,
    "multiply": tirx.Mul,
    "divide": tirx.Div,
    "remainder": tirx.Mod,
    "shift_left": lambda a, b: a << b,
    "less": tirx.LT,
    "less_or_equal": tirx.LE,
    "equal": tirx.EQ,
}
"""The same of TIR, which knows of no overflow."""

_COMPARISONS = ("less", "less_or_equal", "equal")

_INSTRUCTIONS = {"add": "add", "subtract": "sub", "multiply": "mul"}
"""The steps that TVM gives flags, by the name of LLVM's instruction."""


def _register(name: str) -> Op:
    """The operator of a step, which vectorises and may be computed anywhere or not at all."""
    full = _PREFIX + name
    if full not in Op.list_op_names():
        _operators.RegisterOp(full, "arithmetic of integers that wraps around")
        register_op_attr(full, "TCallEffectKind", CallEffectKind.Pure.value)
        register_op_attr(full, "TVectorizable", True)
        register_op_attr(full, "TScriptPrinterName", f"wrapping_{name}")
    return Op.get(full)


_OPERATORS = {name: _register(name) for name in _EXACT}
_CONVERT = _register("convert")


def add(a: Any, b: Any) -> Any:
    """A sum; of integers modulo 2**bits."""
    return _step("add", a, b) if _is_integer(a) else a + b


def subtract(a: Any, b: Any) -> Any:
    """A difference; of integers modulo 2**bits."""
    return _step("subtract", a, b) if _is_integer(a) else a - b


def multiply(a: Any, b: Any) -> Any:
    """A multiplication; of integers modulo 2**bits."""
    return _step("multiply", a, b) if _is_integer(a) else a * b


def divide(a: Any, b: Any) -> Any:
    """A quotient of integers, truncated; 0 for the divisor 0."""
    return _division("divide", a, b)


def remainder(a: Any, b: Any) -> Any:
    """The remainder of `divide`, with the sign of `a`; 0 for the divisor 0."""
    return _division("remainder", a, b)


def shift_left(a: Any, count: Any) -> Any:
    """Bits moved up; the count must be below the width."""
    return _step("shift_left", a, count)


def less(a: Any, b: Any) -> Any:
    """Whether a < b."""
    return _step("less", a, b) if _is_integer(a) else a < b


def less_or_equal(a: Any, b: Any) -> Any:
    """Whether a <= b."""
    return _step("less_or_equal", a, b) if _is_integer(a) else a <= b


def greater(a: Any, b: Any) -> Any:
    """Whether a > b."""
    return _step("less", b, a) if _is_integer(a) else a > b


def greater_or_equal(a: Any, b: Any) -> Any:
    """Whether a >= b."""
    return _step("less_or_equal", b, a) if _is_integer(a) else a >= b


def equal(a: Any, b: Any) -> Any:
    """Whether a == b."""
    return _step("equal", a, b) if _is_integer(a) else tirx.EQ(a, b)


def convert(x: Any, dtype: str) -> Any:
    """A scalar in another type; integers modulo 2**bits, which TVM's own casts are not to TVM."""
    integers = _is_integer(x) and "int" in dtype
    if not integers or isinstance(x, IntImm) or numpy.can_cast(str(x.ty.dtype), dtype):
        return _as(x, dtype) if integers else x.astype(dtype)
    return Call(_CONVERT, [x], ret_ty=PrimType(dtype))


def _is_integer(x: Any) -> bool:
    return "int" in x.ty.dtype


def _step(name: str, a: Any, b: Any) -> Any:
    known = _folded(name, a, b)
    kind = PrimType("bool") if name in _COMPARISONS else a.ty
    return Call(_OPERATORS[name], [a, b], ret_ty=kind) if known is None else known


def _division(name: str, a: Any, b: Any) -> Any:
    """A division, which repeats operands so that those used often are bound, not written again."""
    step = _step(name, a, b)
    if isinstance(step, IntImm) or _is_harmless(b):
        return step
    return Call(step.op, [a, b, a, b], ret_ty=step.ty)


def _is_harmless(divisor: Any) -> bool:
    """Whether no division by it traps."""
    return isinstance(divisor, IntImm) and divisor.value not in (0, -1)


def _folded(name: str, a: Any, b: Any) -> Any:
    """A step of two literals; None where one is not."""
    if not (isinstance(a, IntImm) and isinstance(b, IntImm)):
        return None
    exact = _EXACT[name](int(a.value), int(b.value))
    compares = name in _COMPARISONS
    return tirx.const(exact, "bool") if compares else wrapped_literal(exact, str(a.ty.dtype))


def wrapped_literal(value: int, dtype: str) -> Any:
    """The literal of a type that is congruent to an integer of any size."""
    limits = numpy.iinfo(dtype)
    return tirx.const((value - limits.min) % (1 << limits.bits) + limits.min, dtype)


def with_unsigned(module: IRModule) -> IRModule:
    """A module for C++, in which only unsigned integers wrap, and no short ones.

    Those of up to 16 bits are widened before any arithmetic.
    """
    return _lowered(module, _unsigned)


def _unsigned(name: str, a: Any, b: Any, dtype: str) -> Any:
    scalar, _, lanes = dtype.partition("x")
    bits = numpy.iinfo(scalar).bits
    wide = f"uint{max(bits, 32)}" + (f"x{lanes}" if lanes else "")
    return _as(_PLAIN[name](_as(a, wide), _as(b, wide)), dtype)


def with_instructions(module: IRModule) -> IRModule:
    """A module for LLVM, whose text `plain_instructions` completes."""
    return _lowered(module, _instruction)


def _instruction(name: str, a: Any, b: Any, dtype: str) -> Any:
    if name not in _INSTRUCTIONS:
        return _PLAIN[name](a, b)
    symbol = f"flowloom_wrapping_{_INSTRUCTIONS[name]}_{dtype}"
    return tirx.call_pure_extern(dtype, symbol, a, b)


def plain_instructions(text: str) -> str:
    """LLVM code with instructions that have no flags in place of the calls that stand for them.

    TVM marks all arithmetic of 32 and 64 bits as arithmetic that does not overflow.
    """
    return _LLVM_CALL.sub(r"\2 \1 \3, \4", _LLVM_DECLARATION.sub("", text))


LoweredForm = Callable[[str, Any, Any, str], Any]
"""A step by name of two operands of a type, in the form that a code generation takes."""


def _lowered(module: IRModule, form: LoweredForm) -> IRModule:
    names = {str(operator.name): name for name, operator in _OPERATORS.items()}

    def replace(call: Call, mutator: Any) -> Any:
        call = mutator.default_mutate(call)
        if _CONVERT.same_as(call.op):
            return _as(call.args[0], str(call.ty.dtype))
        name = names.get(getattr(call.op, "name", ""))
        if name is None:
            return call
        # The type of operands, of which TVM may have narrowed one.
        dtype = (
            max((str(operand.ty.dtype) for operand in call.args), key=_width)
            if name in _COMPARISONS
            else str(call.ty.dtype)
        )
        a, b = (_as(operand, dtype) for operand in call.args[:2])
        known = _folded(name, a, b)
        if known is not None:
            return known
        if name in _COMPARISONS:
            return _PLAIN[name](a, b)
        divides = name in ("divide", "remainder")
        return _guarded(name, a, b, form) if divides else form(name, a, b, dtype)

    def lower(function: PrimFunc) -> PrimFunc:
        return function.with_body(tvm_ffi.structural_mutate(function.body, ((Call, replace),)))

    return IRModule({name: lower(function) for name, function in module.functions.items()})


def _width(dtype: str) -> tuple[int, bool]:
    return numpy.iinfo(dtype.partition("x")[0]).bits, dtype.startswith("u")


def _guarded(name: str, a: Any, b: Any, form: LoweredForm) -> Any:
    """A division that never traps: by 1 in place of 0, and of -1, whose quotient may overflow."""
    dtype = str(a.ty.dtype)
    plain = _PLAIN[name]
    if _is_harmless(b):
        return plain(a, b)
    zero, one = tirx.const(0, dtype), tirx.const(1, dtype)
    by_zero = tirx.EQ(b, zero)
    if dtype.startswith("u"):
        return tirx.Select(by_zero, zero, plain(a, tirx.Select(by_zero, one, b)))
    by_minus = tirx.EQ(b, tirx.const(-1, dtype))
    safe = tirx.Select(by_zero, one, tirx.Select(by_minus, one, b))
    negated = form("subtract", zero, a, dtype) if name == "divide" else zero
    return tirx.Select(by_zero, zero, tirx.Select(by_minus, negated, plain(a, safe)))


def _as(value: Any, dtype: str) -> Any:
    """A value in another type: TVM narrows integers whose range it knows, and folds no casts."""
    if str(value.ty.dtype) == dtype:
        return value
    if isinstance(value, IntImm):
        return wrapped_literal(int(value.value), dtype)
    return tirx.Cast(dtype, value)
