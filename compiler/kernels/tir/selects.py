"""Selects between elements of memory, where TVM's own `RewriteUnsafeSelect` leaves some unsafe.

A `Select` computes both of its values, yet TVM simplifies each as if the condition decided: below
`i <= 1`, `x[i % 2]` becomes `x[i]`. TVM's pass makes an `if_then_else` of a select between loads,
but takes loads in another `if_then_else` for safe, whose condition may say nothing of `i`.
"""

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var
from tvm.tirx import PrimFunc, Select
from tvm.tirx.transform import prim_func_pass

_LAZY = "prim.if_then_else"


def lazy_selects(function: PrimFunc) -> PrimFunc:
    """A function in which no load that a select's condition may have simplified runs without it."""
    selects: list[Any] = []
    tvm_ffi.structural_walk(function.body, (Select, selects.append), order="pre")
    unsafe = [select for select in selects if _is_unsafe(select)]
    if not unsafe:
        return function

    def rewritten(select: Any, mutator: Any) -> Any:
        parts = (select.condition, select.true_value, select.false_value)
        make = tirx.if_then_else if any(select.same_as(one) for one in unsafe) else Select
        return make(*map(mutator.mutate, parts))

    return function.with_body(tvm_ffi.structural_mutate(function.body, (Select, rewritten)))


def _is_unsafe(select: Any) -> bool:
    """Whether a load after an `if_then_else` has an index that the condition may simplify.

    A condition of elements says nothing of loops, and becomes no branch for that.
    """
    if str(select.condition.ty.dtype) != "bool":  # a vector's lanes differ, and cannot branch
        return False
    loads: list[Any] = []

    def collect(call: Any) -> None:
        if getattr(call.op, "name", "") == _LAZY:
            tvm_ffi.structural_walk(call, (TensorLoad, loads.append), order="pre")

    for value in (select.true_value, select.false_value):
        tvm_ffi.structural_walk(value, (Call, collect), order="pre")
    return bool(loads) and _is_of_loops(select.condition)


def _is_of_loops(condition: Any) -> bool:
    """Whether a condition has a variable outside the indices of its elements."""

    def hide(load: Any, mutator: Any) -> Any:
        return tirx.const(0, "int32")

    variables: list[Any] = []
    bare = tvm_ffi.structural_mutate(condition, (TensorLoad, hide))
    tvm_ffi.structural_walk(bare, (Var, variables.append), order="pre")
    return bool(variables)


def _lazily(function: PrimFunc, module: Any, context: Any) -> PrimFunc:
    return lazy_selects(function)


LAZY_SELECTS = prim_func_pass(_lazily, opt_level=0, name="flowloom.LazySelects")
"""The pass, to run with TVM's."""
