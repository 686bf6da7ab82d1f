"""Opaque blocks on the GPU: a parallel loop becomes threads, any other loop runs in one thread."""

from typing import Any

from tvm.ir import PrimType
from tvm.tirx import ForKind

from compiler.kernels.gpu.untyped import PrimFunc, ir, tirx, tvm_ffi

THREADS = 64
"""Threads of a block of an opaque kernel."""


def bind_opaque(function: PrimFunc) -> PrimFunc:
    """Make each outermost loop of a function that only has opaque blocks a kernel."""

    def bind(loop: Any, mutator: Any) -> Any:
        return bound(loop)

    return function.with_body(tvm_ffi.structural_mutate(function.body, (tirx.For, bind)))


def bound(statement: Any) -> Any:
    """A loop of an opaque block inside a grid of threads."""
    index = PrimType("int32")
    block, thread = ir.Var("block", index), ir.Var("thread", index)
    if statement.kind == ForKind.PARALLEL:
        extent = int(statement.extent)
        position = block * THREADS + thread
        once = tirx.For(
            statement.loop_var, position, tirx.const(1, "int32"), ForKind.SERIAL, statement.body
        )
        inner = tirx.IfThenElse(position < extent, once, None)
        blocks, threads = -(-extent // THREADS), THREADS
    else:
        inner, blocks, threads = statement, 1, 1
    return _loop(block, blocks, "blockIdx.x", _loop(thread, threads, "threadIdx.x", inner))


def _loop(variable: Any, extent: int, tag: str, body: Any) -> Any:
    zero, size = tirx.const(0, "int32"), tirx.const(extent, "int32")
    axis = tirx.IterVar(
        ir.Range(zero, size), ir.Var(f"{variable.name}_axis", PrimType("int32")), 1, tag
    )
    return tirx.For(variable, zero, size, ForKind.THREAD_BINDING, body, axis)
