"""Opaque blocks on the GPU: a parallel loop becomes threads, any other loop runs in one thread."""

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import PrimType, Range, Var
from tvm.tirx import For, ForKind, IfThenElse, IterVar, PrimFunc, Stmt

THREADS = 64
"""Threads of a block of an opaque kernel."""


def bind_opaque(function: PrimFunc) -> PrimFunc:
    """Make each outermost loop of a function that only has opaque blocks a kernel."""

    def bind(loop: For, mutator: Any) -> Stmt:
        return bound(loop)

    return function.with_body(tvm_ffi.structural_mutate(function.body, (For, bind)))


def bound(statement: For) -> Stmt:
    """A loop of an opaque block inside a grid of threads."""
    index = PrimType("int32")
    block, thread = Var("block", index), Var("thread", index)
    if statement.kind == ForKind.PARALLEL:
        extent = int(statement.extent)
        position = block * THREADS + thread
        once = For(
            statement.loop_var, position, tirx.const(1, "int32"), ForKind.SERIAL, statement.body
        )
        inner: Stmt = IfThenElse(position < extent, once, None)
        blocks, threads = -(-extent // THREADS), THREADS
    else:
        inner, blocks, threads = statement, 1, 1
    return _loop(block, blocks, "blockIdx.x", _loop(thread, threads, "threadIdx.x", inner))


def _loop(variable: Var, extent: int, tag: str, body: Stmt) -> Stmt:
    zero, size = tirx.const(0, "int32"), tirx.const(extent, "int32")
    axis = IterVar(Range(zero, size), Var(f"{variable.name}_axis", PrimType("int32")), 1, tag)
    return For(variable, zero, size, ForKind.THREAD_BINDING, body, axis)
