"""Arithmetic of integers from data, which wraps around modulo 2**bits as numpy's does.

TVM simplifies integers as if they were unbounded, and both LLVM and C++ take signed ones that
overflow for an error. Here each step is a call that none of them sees through, until TVM has
simplified what is around it. Indices are none of this: they never overflow.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
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
    r"(?:tail )?call (\S+|<[^>]*>) @flowloom_wrapping_([a-z]+)_\w+\(\1 (.*), \1 (.*)\).*"
)
"""The call that stands for an instruction of LLVM without flags: its type, name and operands."""

_LLVM_DECLARATION = re.compile(r"^declare .*@flowloom_wrapping_.*\n", re.M)


@dataclass(frozen=True)
class _Step:
    """A step of arithmetic: its value of Python's integers, its form in TIR, LLVM's names of it."""

    exact: Callable[[int, int], int]
    plain: Callable[[Any, Any], Any]
    signed: str
    unsigned: str


def _quotient(a: int, b: int) -> int:
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


_STEPS = {
    "add": _Step(lambda a, b: a + b, tirx.Add, "add", "add"),
    "subtract": _Step(lambda a, b: a - b, tirx.Sub, "sub", "sub"),
    "multiply": _Step(lambda a, b: a * b, tirx.Mul, "mul", "mul"),
    "divide": _Step(_quotient, tirx.Div, "sdiv", "udiv"),
    "remainder": _Step(lambda a, b: a - b * _quotient(a, b), tirx.Mod, "srem", "urem"),
    "shift_left": _Step(lambda a, b: a << b, lambda a, b: a << b, "shl", "shl"),
}


def _register(name: str) -> Op:
    """The operator of a step, which vectorises and may be computed anywhere or not at all."""
    full = _PREFIX + name
    if full not in Op.list_op_names():
        _operators.RegisterOp(full, "arithmetic of integers that wraps around")
        register_op_attr(full, "TCallEffectKind", CallEffectKind.Pure.value)
        register_op_attr(full, "TVectorizable", True)
        register_op_attr(full, "TScriptPrinterName", f"wrapping_{name}")
    return Op.get(full)


_OPERATORS = {name: _register(name) for name in _STEPS}


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
    """A quotient of integers, truncated; the divisor must not be 0, nor -1 for the least one."""
    return _step("divide", a, b)


def remainder(a: Any, b: Any) -> Any:
    """The rest of `divide`."""
    return _step("remainder", a, b)


def shift_left(a: Any, count: Any) -> Any:
    """Bits moved up; the count must be below the width."""
    return _step("shift_left", a, count)


def _is_integer(x: Any) -> bool:
    return "int" in x.ty.dtype


def _step(name: str, a: Any, b: Any) -> Any:
    known = _folded(name, a, b)
    return Call(_OPERATORS[name], [a, b], ret_ty=a.ty) if known is None else known


def _folded(name: str, a: Any, b: Any) -> Any:
    """A step of two literals; None where one is not, or has no value."""
    if not (isinstance(a, IntImm) and isinstance(b, IntImm)):
        return None
    if name in ("divide", "remainder") and b.value == 0:
        return None
    return _literal(_STEPS[name].exact(int(a.value), int(b.value)), str(a.ty.dtype))


def _literal(value: int, dtype: str) -> Any:
    """The literal that is congruent to an integer."""
    limits = numpy.iinfo(dtype)
    return tirx.const((value - limits.min) % (1 << limits.bits) + limits.min, dtype)


def with_unsigned(module: IRModule) -> IRModule:
    """A module for C++, in which only unsigned integers wrap, and no short ones.

    Those of up to 16 bits are widened before any arithmetic.
    """
    return _lowered(module, _unsigned)


def _unsigned(name: str, a: Any, b: Any, dtype: str) -> Any:
    scalar, _, lanes = dtype.partition("x")
    bits, plain = numpy.iinfo(scalar).bits, _STEPS[name].plain
    if name in ("divide", "remainder") or (bits >= 32 and scalar.startswith("u")):
        return plain(a, b)
    wide = f"uint{max(bits, 32)}" + (f"x{lanes}" if lanes else "")
    return tirx.Cast(dtype, plain(_as(a, wide), _as(b, wide)))


def with_instructions(module: IRModule) -> IRModule:
    """A module for LLVM, whose text `plain_instructions` completes."""
    return _lowered(module, _instruction)


def _instruction(name: str, a: Any, b: Any, dtype: str) -> Any:
    step = _STEPS[name]
    instruction = step.unsigned if dtype.startswith("u") else step.signed
    return tirx.call_pure_extern(dtype, f"flowloom_wrapping_{instruction}_{dtype}", a, b)


def plain_instructions(text: str) -> str:
    """LLVM code with instructions that have no flags in place of the calls that stand for them.

    TVM marks all arithmetic of 32 and 64 bits as arithmetic that does not overflow.
    """
    return _LLVM_CALL.sub(r"\2 \1 \3, \4", _LLVM_DECLARATION.sub("", text))


def _lowered(module: IRModule, form: Callable[[str, Any, Any, str], Any]) -> IRModule:
    names = {str(operator.name): name for name, operator in _OPERATORS.items()}

    def replace(call: Call, mutator: Any) -> Any:
        call = mutator.default_mutate(call)
        name = names.get(getattr(call.op, "name", ""))
        if name is None:
            return call
        dtype = str(call.ty.dtype)
        a, b = (_as(operand, dtype) for operand in call.args)
        known = _folded(name, a, b)
        return form(name, a, b, dtype) if known is None else known

    def lower(function: PrimFunc) -> PrimFunc:
        return function.with_body(tvm_ffi.structural_mutate(function.body, ((Call, replace),)))

    return IRModule({name: lower(function) for name, function in module.functions.items()})


def _as(value: Any, dtype: str) -> Any:
    """A value in another type: TVM narrows integers whose range it knows, and folds no casts."""
    if str(value.ty.dtype) == dtype:
        return value
    if isinstance(value, IntImm):
        return _literal(int(value.value), dtype)
    return tirx.Cast(dtype, value)
