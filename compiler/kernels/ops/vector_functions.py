"""Mathematical functions as operators that TVM vectorises: a call of a function has no vector form.

A template's loop over the lanes of a vector has them until its code is generated.
"""

from typing import Any

import tvm_ffi
from tvm import IRModule, tirx
from tvm.ir import Call, Op, StringImm
from tvm.ir import _ffi_api as _operators
from tvm.ir.op import register_op_attr
from tvm.tirx import CallEffectKind, Stmt

from compiler.kernels.ops.mathematics import FUNCTIONS, vector_symbol

_PREFIX = "tirx.flowloom_function_"


def _register(name: str) -> Op:
    full = _PREFIX + name
    if full not in Op.list_op_names():
        _operators.RegisterOp(full, "a mathematical function of float32")
        register_op_attr(full, "TCallEffectKind", CallEffectKind.Pure.value)
        register_op_attr(full, "TVectorizable", True)
        register_op_attr(full, "TScriptPrinterName", f"vector_{name}")
    return Op.get(full)


_OPERATORS = {f"flowloom_{name}": _register(name) for name in FUNCTIONS}
_NAMES = {str(operator.name): symbol for symbol, operator in _OPERATORS.items()}


def vector_function(name: str, value: Any) -> Any:
    """A function of a float32 as its operator."""
    return Call(_OPERATORS[f"flowloom_{name}"], [value], ret_ty=value.ty)


def with_operators(statement: Stmt) -> Stmt:
    """A statement with operators in place of its calls of functions that have a vector form."""

    def replace(call: Call, mutator: Any) -> Any:
        call = mutator.default_mutate(call)
        symbol = call.args[0] if call.args else None
        known = _OPERATORS.get(symbol.value) if isinstance(symbol, StringImm) else None
        return call if known is None else Call(known, [call.args[1]], ret_ty=call.ty)

    return tvm_ffi.structural_mutate(statement, ((Call, replace),))


def with_calls(module: IRModule) -> IRModule:
    """A module for LLVM: calls of functions, of scalars or vectors, in place of the operators."""

    def replace(call: Call, mutator: Any) -> Any:
        call = mutator.default_mutate(call)
        symbol = _NAMES.get(getattr(call.op, "name", ""))
        if symbol is None:
            return call
        dtype = str(call.ty.dtype)
        _, _, lanes = dtype.partition("x")
        return tirx.call_pure_extern(dtype, vector_symbol(symbol, int(lanes or 1)), *call.args)

    bodies = {
        name: function.with_body(tvm_ffi.structural_mutate(function.body, ((Call, replace),)))
        for name, function in module.functions.items()
    }
    return IRModule(bodies)
