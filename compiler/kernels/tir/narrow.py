"""Code without arithmetic in bfloat16: its values are float32 with 16 bits of zeros instead.

TVM's own legalisation skips the values that `Let` binds, forgets to round, and makes float32 of
local buffers even where the bits of their elements are read.
"""

from typing import Any

import numpy as np
import tvm_ffi
from ml_dtypes import bfloat16
from tvm import tirx
from tvm.ir import Call, Expr, PrimType, TensorLoad, Var
from tvm.tirx import Add, BufferStore, Cast, Div, FloatImm, Let, Mul, PrimFunc, Select, Stmt, Sub

from compiler.kernels.ops.vector_functions import vector_function

_NARROW = "bfloat16"

_SOURCES = (Call, Cast, FloatImm, TensorLoad, Var)
"""The expressions that can have another type than what they are made of."""


def as_float32(value: Any) -> Any:
    """An element of memory in 16 bits, or a vector of them, as float32.

    A vector of bfloat16 is converted at once, as the other functions only know scalars of it.
    """
    kind, _, lanes = str(value.ty.dtype).partition("x")
    if kind == _NARROW and lanes:
        return _from_bits(value)
    return value.astype(f"float32x{lanes}" if lanes else "float32")


def widened(value: Any) -> Any:
    """An expression that computes in float32 what it computed in bfloat16, memory excepted.

    One of type bfloat16 becomes one of type float32, rounded to the nearest bfloat16: each
    operator's result has its type, whether it is stored or not.
    """
    wide: dict[Var, Var] = {}

    def let(bound: Let, mutator: Any) -> Any:
        if is_narrow(bound.var):
            wide[bound.var] = Var(bound.var.name, PrimType("float32"))
        variable = wide.get(bound.var, bound.var)
        return Let(variable, mutator.mutate(bound.value), mutator.mutate(bound.body))

    def read(variable: Var, mutator: Any) -> Any:
        own = wide.get(variable, variable)
        return _from_bits(own) if is_narrow(own) else own

    rules = (
        (Cast, _cast),
        (Call, _call),
        (Select, _select),
        (Let, let),
        (Var, read),
        (Expr, _other),
    )
    return tvm_ffi.structural_mutate(value, rules)


def computed_in_float32(function: PrimFunc) -> PrimFunc:
    """A function in which only memory is bfloat16: it computes in float32, and rounds to store.

    A NaN stays one, which TVM's conversion makes a number of where its bits overflow. A function
    without any is returned as it is: to rebuild one takes as long as to compile it.
    """
    if not _has_narrow(function.body):
        return function

    def store(statement: BufferStore, mutator: Any) -> Stmt:
        value = widened(statement.value)
        stored = upper_half(value) if is_narrow(statement.value) else value
        return BufferStore(statement.buffer, stored, [widened(i) for i in statement.indices])

    def other(value: Expr, mutator: Any) -> Any:
        return widened(value)

    rules = ((BufferStore, store), (Expr, other))
    return function.with_body(tvm_ffi.structural_mutate(function.body, rules))


def _has_narrow(body: Stmt) -> bool:
    """Whether a number in a statement has type bfloat16, so that one of these kinds has."""
    narrow: list[Expr] = []

    def collect(value: Expr) -> None:
        if is_narrow(value):
            narrow.append(value)

    tvm_ffi.structural_walk(body, tuple((kind, collect) for kind in _SOURCES))
    return bool(narrow)


def is_narrow(value: Any) -> bool:
    """Whether an expression is a number of type bfloat16: no buffer of them."""
    scalar = isinstance(value, Expr) and isinstance(value.ty, PrimType)
    return scalar and str(value.ty.dtype) == _NARROW


def _cast(cast: Cast, mutator: Any) -> Any:
    value = mutator.mutate(cast.value)
    if not is_narrow(cast):
        return value.astype(str(cast.ty.dtype))
    return value if is_narrow(cast.value) else _rounded(value.astype("float32"))


def _call(call: Call, mutator: Any) -> Any:
    if getattr(call.op, "name", "").endswith(".address_of"):
        return call
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


def _other(value: Any, mutator: Any) -> Any:
    if not is_narrow(value):
        return mutator.default_mutate(value)
    if isinstance(value, FloatImm):
        return tirx.const(float(np.float32(value.value).astype(bfloat16)), "float32")
    if hasattr(value, "a"):
        narrowed = type(value)(mutator.mutate(value.a), mutator.mutate(value.b))
        return _rounded(narrowed) if isinstance(value, Add | Sub | Mul | Div) else narrowed
    return _from_bits(mutator.default_mutate(value))


def _from_bits(value: Any) -> Any:
    """An element of memory, or a vector of them: its bits are the upper half of a float32."""
    _, _, lanes = str(value.ty.dtype).partition("x")
    short, whole, kind = (f"{t}x{lanes}" if lanes else t for t in ("uint16", "uint32", "float32"))
    count = tirx.const(16, "uint32")
    count = tirx.Broadcast(count, int(lanes)) if lanes else count
    return tirx.reinterpret(kind, tirx.reinterpret(short, value).astype(whole) << count)


def _rounded(value: Any) -> Any:
    """A float32 as the nearest bfloat16, the even one of two; a NaN is quiet then."""
    if isinstance(value, FloatImm):
        return tirx.const(float(np.float32(value.value).astype(bfloat16)), "float32")
    return vector_function("bfloat16", value)


def upper_half(value: Any) -> Any:
    """A float32 that is a bfloat16 as one."""
    if isinstance(value, FloatImm):
        bits = int(np.float32(value.value).view(np.uint32)) >> 16
        return tirx.reinterpret("bfloat16", tirx.const(bits, "uint16"))
    bits = tirx.reinterpret("uint32", value) >> tirx.const(16, "uint32")
    return tirx.reinterpret("bfloat16", bits.astype("uint16"))
