"""Opaque blocks on the GPU: a parallel loop becomes threads, any other loop one thread's work."""

from collections.abc import Callable

import tvm_ffi
from tvm import tirx
from tvm.ir import PrimType, Range, Var
from tvm.s_tir import SBlock
from tvm.tirx import For, ForKind, IfThenElse, IterVar, PrimFunc, SeqStmt, Stmt

THREADS = 64
"""Threads of a block of an opaque kernel."""


def is_opaque(block: SBlock) -> bool:
    """Whether a block is statements over whole buffers instead of one element's computation."""
    return not list(block.iter_vars) and isinstance(block.body, For | SeqStmt)


def bind_opaque_blocks(function: PrimFunc) -> PrimFunc:
    """Give the opaque blocks of an unscheduled function threads; the root block is left alone."""

    def bind(block: SBlock, mutator: tvm_ffi.structural.StructuralMutator) -> SBlock:
        if not is_opaque(block) or block.name_hint == "root":
            return mutator.default_mutate(block)
        return tvm_ffi.structural_mutate(block, ((For, SeqStmt), _bind_once()))

    return function.with_body(tvm_ffi.structural_mutate(function.body, (SBlock, bind)))


def _bind_once() -> Callable[..., Stmt]:
    return lambda statement, mutator: bound(statement)


def bound(statement: Stmt) -> Stmt:
    """A statement of an opaque block inside a grid of threads."""
    index = PrimType("int32")
    block, thread = Var("block", index), Var("thread", index)
    if isinstance(statement, For) and statement.kind == ForKind.PARALLEL:
        extent = int(statement.extent)
        position = block * THREADS + thread
        inner: Stmt = For(
            statement.loop_var, position, tirx.const(1, "int32"), ForKind.SERIAL, statement.body
        )
        inner = IfThenElse(position < extent, inner)
        blocks, threads = -(-extent // THREADS), THREADS
    else:
        inner, blocks, threads = statement, 1, 1
    return _loop(block, blocks, "blockIdx.x", _loop(thread, threads, "threadIdx.x", inner))


def _loop(variable: Var, extent: int, tag: str, body: Stmt) -> Stmt:
    zero, size = tirx.const(0, "int32"), tirx.const(extent, "int32")
    axis = IterVar(Range(zero, size), Var(f"{variable.name}_axis", PrimType("int32")), 1, tag)
    return For(variable, zero, size, ForKind.THREAD_BINDING, body, axis)
