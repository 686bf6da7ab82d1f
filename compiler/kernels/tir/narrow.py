"""Expressions without bfloat16: its values are float32 instead.

TVM's own legalisation skips the values that `Let` binds.
"""

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr, PrimType, Var
from tvm.tirx import Cast, FloatImm, Let, Select

_NARROW = "bfloat16"


def widened(value: Any) -> Any:
    """An expression that computes in float32 what it computed in bfloat16, memory excepted.

    One of type bfloat16 becomes one of type float32, unrounded, as TVM's legalisation has it.
    """
    rules = (
        (Cast, _cast),
        (Call, _call),
        (Select, _select),
        (Let, _let),
        (Var, _variable),
        (Expr, _other),
    )
    return tvm_ffi.structural_mutate(value, rules)


def is_narrow(value: Any) -> bool:
    """Whether an expression is a number of type bfloat16: no buffer of them."""
    scalar = isinstance(value, Expr) and isinstance(value.ty, PrimType)
    return scalar and str(value.ty.dtype) == _NARROW


def _cast(cast: Cast, mutator: Any) -> Any:
    value = mutator.mutate(cast.value)
    return value.astype("float32" if is_narrow(cast) else str(cast.ty.dtype))


def _call(call: Call, mutator: Any) -> Any:
    if not is_narrow(call):
        return mutator.default_mutate(call)
    if getattr(call.op, "name", "") != "prim.if_then_else":
        return _from_bits(mutator.default_mutate(call))
    return tirx.if_then_else(*[mutator.mutate(value) for value in call.args])


def _select(select: Select, mutator: Any) -> Any:
    if not is_narrow(select):
        return mutator.default_mutate(select)
    values = (select.condition, select.true_value, select.false_value)
    return Select(*[mutator.mutate(value) for value in values])


def _let(bound: Let, mutator: Any) -> Any:
    return Let(bound.var, mutator.mutate(bound.value), mutator.mutate(bound.body))


def _other(value: Any, mutator: Any) -> Any:
    if not is_narrow(value):
        return mutator.default_mutate(value)
    if isinstance(value, FloatImm):
        return tirx.const(value.value, "float32")
    if hasattr(value, "a"):
        return type(value)(mutator.mutate(value.a), mutator.mutate(value.b))
    return _from_bits(mutator.default_mutate(value))


def _from_bits(value: Any) -> Any:
    """An element of memory: its bits are the upper half of a float32."""
    bits = tirx.reinterpret("uint16", value).astype("uint32") << tirx.const(16, "uint32")
    return tirx.reinterpret("float32", bits)


def _variable(variable: Var, mutator: Any) -> Any:
    return _from_bits(variable) if is_narrow(variable) else variable
