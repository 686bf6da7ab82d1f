"""Flat buffers, by TVM's pass without a mistake of it.

The pass simplifies the sum of the axes' offsets as a sum of splits of the loops. A quotient or a
remainder of `c - i`, as a tile that is read backwards has, loses `c` there if the sum would put it
together with another axis: of 4 columns, row i and column (3 - j) mod 4 become 4 i - (j mod -4).
"""

from typing import Any

import tvm_ffi
from tvm import te, tirx
from tvm.ir import Call, IRModule, TensorLoad, Var
from tvm.tirx import FloorDiv, FloorMod, IntImm, Mul, PrimFunc, Sub
from tvm.tirx.transform import prim_func_pass


def _descends(numerator: Any) -> bool:
    """Whether something is subtracted, or multiplied by a negative number.

    A sum with a call or a load in it is not one of loops alone: TVM leaves it as it is, and what is
    hidden from the pass must have no buffer.
    """
    calls: list[Any] = []
    less: list[Any] = []
    tvm_ffi.structural_walk(numerator, (Call, calls.append), order="pre")
    tvm_ffi.structural_walk(numerator, (TensorLoad, calls.append), order="pre")
    tvm_ffi.structural_walk(numerator, (Sub, less.append), order="pre")
    tvm_ffi.structural_walk(numerator, (Mul, less.append), order="pre")
    return not calls and any(_is_negative(term) for term in less)


def _is_negative(term: Any) -> bool:
    if isinstance(term, Sub):
        return not isinstance(term.b, IntImm)
    return any(isinstance(part, IntImm) and part.value < 0 for part in (term.a, term.b))


def flattened(function: PrimFunc) -> PrimFunc:
    """A function with flat buffers; those quotients and remainders are variables meanwhile."""
    hidden: dict[Any, Any] = {}

    def hide(node: Any, mutator: Any) -> Any:
        if not _descends(node.a):
            return mutator.default_mutate(node)
        variable = te.var(f"part{len(hidden)}", str(node.ty.dtype))
        hidden[variable] = node
        return variable

    def show(variable: Any, mutator: Any) -> Any:
        return hidden.get(variable, variable)

    rules = ((FloorDiv, hide), (FloorMod, hide))
    plain = function.with_body(tvm_ffi.structural_mutate(function.body, rules))
    flat: Any = tirx.transform.FlattenBuffer()(IRModule({"flat": plain}))["flat"]
    if not hidden:
        return flat
    return flat.with_body(tvm_ffi.structural_mutate(flat.body, ((Var, show),)))


def _flatten(function: PrimFunc, module: Any, context: Any) -> PrimFunc:
    return flattened(function)


FLATTEN_BUFFERS = prim_func_pass(_flatten, opt_level=0, name="flowloom.FlattenBuffers")
"""The pass in the place of TVM's."""
