"""Values that are bound by `Let` and stay bound: TVM's simplifier would write pure ones out again.

It replaces each use of a variable whose value has no effect by that value, so that a chain of
values that are used twice grows exponentially. `once(x)` is x, but counts as a read of memory.
"""

from collections.abc import Mapping
from typing import Any

import ml_dtypes as ml_dtypes  # numpy knows bfloat16
import numpy as np
import tvm_ffi
from tvm import IRModule
from tvm.ir import Call, Op, Var
from tvm.ir import _ffi_api as _operators
from tvm.ir.op import register_op_attr
from tvm.tirx import Broadcast, CallEffectKind, Evaluate, FloatImm, IntImm, Let, PrimFunc, const
from tvm.tirx.stmt import Bind

_NAME = "tirx.flowloom_once"


def _register() -> Op:
    """The operator, which vectorises as its operand does."""
    if _NAME not in Op.list_op_names():
        _operators.RegisterOp(_NAME, "its operand, computed where it is bound")
        register_op_attr(_NAME, "TCallEffectKind", CallEffectKind.ReadState.value)
        register_op_attr(_NAME, "TVectorizable", True)
        register_op_attr(_NAME, "TScriptPrinterName", "once")
    return Op.get(_NAME)


_ONCE = _register()


def once(value: Any) -> Any:
    """A value that no pass moves to where its variable is used."""
    return Call(_ONCE, [value], ret_ty=value.ty)


def without_once(module: IRModule) -> IRModule:
    """A module for a code generation that simplifies nothing: the values themselves are bound."""

    def strip(call: Call, mutator: Any) -> Any:
        call = mutator.default_mutate(call)
        return _operand(call) if is_once(call) else call

    def stripped(function: PrimFunc) -> PrimFunc:
        body = without_literals(function.body)
        return function.with_body(tvm_ffi.structural_mutate(body, ((Call, strip),)))

    return IRModule({name: stripped(function) for name, function in module.functions.items()})


def _operand(call: Call) -> Any:
    """The bound value in its original type: TVM narrows integers whose range it knows."""
    (value,) = call.args
    kept = value.ty.dtype == call.ty.dtype
    return value if kept else value.astype(str(call.ty.dtype))


def is_once(call: Call) -> bool:
    """Whether a call is one of `once`."""
    return bool(_ONCE.same_as(call.op))


def without_literals(body: Any) -> Any:
    """Code that takes no bits of literals, which C++ does not allow, and LLVM not of integers.

    Simplification finds these: integers that are bound as floats, as in x - x, and floats whose
    bits are read, as in a cast to float8 of a choice between equal numbers.
    """

    def convert(call: Call, mutator: Any) -> Any:
        call = mutator.default_mutate(call)
        return _literal_bits(call) if is_reinterpret(call) else call

    body = tvm_ffi.structural_mutate(body, ((Call, convert),))
    while literals := _bound_integers(body):
        body = _read_directly(body, literals)
        body = tvm_ffi.structural_mutate(body, ((Call, convert),))
    return body


def _bound_integers(body: Any) -> dict[Var, IntImm]:
    """The floats that are bound to the bits of an integer's literal."""
    literals: dict[Var, IntImm] = {}

    def remember(bound: Let | Bind) -> None:
        value = _stripped(bound.value)
        if isinstance(value, Call) and is_reinterpret(value):
            integer = _stripped(value.args[0])
            if isinstance(integer, IntImm):
                literals[bound.var] = integer

    tvm_ffi.structural_walk(body, ((Let, remember), (Bind, remember)), order="pre")
    return literals


def _read_directly(body: Any, literals: Mapping[Var, IntImm]) -> Any:
    """Code without some bound floats, whose bits are literals where they are read."""

    def let(bound: Let, mutator: Any) -> Any:
        rest = mutator.mutate(bound.body)
        return rest if bound.var in literals else Let(bound.var, mutator.mutate(bound.value), rest)

    def bind(bound: Bind, mutator: Any) -> Any:
        return Evaluate(0) if bound.var in literals else mutator.default_mutate(bound)

    def read(call: Call, mutator: Any) -> Any:
        literal = literals.get(call.args[0]) if is_reinterpret(call) else None
        return mutator.default_mutate(call) if literal is None else literal.astype(call.ty.dtype)

    return tvm_ffi.structural_mutate(body, ((Let, let), (Bind, bind), (Call, read)))


def _literal_bits(call: Call) -> Any:
    """The integer that is the bits of a float's literal; the call itself for other operands."""
    value = _stripped(call.args[0])
    scalar = value.value if isinstance(value, Broadcast) else value
    integer, *_ = str(call.ty.dtype).split("x")
    if not isinstance(scalar, FloatImm) or "int" not in integer:
        return call
    bits = const(int(np.array(scalar.value, str(scalar.ty.dtype)).view(integer)), integer)
    return Broadcast(bits, value.lanes) if isinstance(value, Broadcast) else bits


def _stripped(value: Any) -> Any:
    while isinstance(value, Call) and is_once(value):
        value = _operand(value)
    return value


def is_reinterpret(call: Call) -> bool:
    """Whether a call gives the bits of its operand another type."""
    return getattr(call.op, "name", "").endswith(".reinterpret")
