"""Flat buffers, by TVM's pass without a mistake of it.

The pass simplifies the sum of the axes' offsets as a sum of splits of the loops. A quotient or a
remainder of `i + c` or of `c - i`, as an axis that is padded or read backwards has, loses `c` there
if the sum would put it together with another axis: of 4 columns, row i and column (3 - j) mod 4
become 4 i - (j mod -4), and of 3 columns, row i // 3 and column (i + 1) mod 3 become i - 2.
"""

from typing import Any

import tvm_ffi
from tvm import te, tirx
from tvm.ir import Call, IRModule, TensorLoad, Var
from tvm.tirx import Add, AttrStmt, FloorDiv, FloorMod, For, IntImm, Mul, PrimFunc, Sub
from tvm.tirx.transform import prim_func_pass


def _is_shifted(numerator: Any, loops: set[Any]) -> bool:
    """Whether something other than a loop is added, or anything subtracted or negated.

    A sum with a call or a load in it is not one of loops alone: TVM leaves it as it is, and what is
    hidden from the pass must have no buffer. One of sizes alone may be an extent.
    """
    terms = _terms(numerator, Call, TensorLoad, Var, Sub, Mul, Add)
    if any(isinstance(term, Call | TensorLoad) for term in terms):
        return False
    if not any(term in loops for term in terms if isinstance(term, Var)):
        return False
    if any(
        isinstance(term, Sub) or (isinstance(term, Mul) and _is_negative(term)) for term in terms
    ):
        return True
    return any(
        loops.isdisjoint(_terms(part, Var))
        for term in terms
        if isinstance(term, Add)
        for part in (term.a, term.b)
    )


def _is_negative(term: Any) -> bool:
    parts = (term.a, term.b) if isinstance(term, Mul) else ()
    return any(isinstance(part, IntImm) and part.value < 0 for part in parts)


def _terms(root: Any, *kinds: type) -> list[Any]:
    """The nodes of some classes in an expression or a statement."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(root, [(kind, nodes.append) for kind in kinds], order="pre")
    return nodes


def _loops(function: PrimFunc) -> set[Any]:
    """The variables of loops, and of the threads and blocks that stand for loops on GPUs."""
    attributes = _terms(function.body, AttrStmt)
    threads = {attr.node.var for attr in attributes if attr.attr_key == "thread_extent"}
    return threads | {loop.loop_var for loop in _terms(function.body, For)}


def flattened(function: PrimFunc) -> PrimFunc:
    """A function with flat buffers; those quotients and remainders are variables meanwhile."""
    hidden: dict[Any, Any] = {}
    loops = _loops(function)

    def hide(node: Any, mutator: Any) -> Any:
        if not _is_shifted(node.a, loops):
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
