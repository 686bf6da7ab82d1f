"""Values that are bound by `Let` and stay bound: TVM's simplifier would write pure ones out again.

It replaces each use of a variable whose value has no effect by that value, so that a chain of
values that are used twice grows exponentially. `once(x)` is x, but counts as a read of memory.
"""

from typing import Any

import tvm_ffi
from tvm import IRModule
from tvm.ir import Call, Op
from tvm.ir import _ffi_api as _operators
from tvm.ir.op import register_op_attr
from tvm.tirx import CallEffectKind, PrimFunc

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
        return function.with_body(tvm_ffi.structural_mutate(function.body, ((Call, strip),)))

    return IRModule({name: stripped(function) for name, function in module.functions.items()})


def _operand(call: Call) -> Any:
    """What is bound, in the type that it had: TVM narrows integers whose range it knows."""
    (value,) = call.args
    kept = value.ty.dtype == call.ty.dtype
    return value if kept else value.astype(str(call.ty.dtype))


def is_once(call: Call) -> bool:
    """Whether a call is one of `once`."""
    return bool(_ONCE.same_as(call.op))
