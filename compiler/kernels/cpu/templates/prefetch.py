"""Prefetching what an epilogue reads and writes, before the sums that it follows are computed.

Tiles of output channels touch short runs that are a plane apart, which no core foresees.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad, Var
from tvm.tirx import BufferStore, Evaluate, Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import loop_over, sequence
from compiler.schedule import ELEMENT_BYTES

LINE_BYTES = 64
"""Bytes of a cache line."""


def prefetch(around: FusionContext, lead: Sequence[Any], first: Any, positions: int) -> Stmt:
    """Prefetch what the results of two or more positions of a channel's plane read and write.

    `lead` is the number of the image and of the channel, `first` the first of the positions.
    """
    run = LINE_BYTES // min(ELEMENT_BYTES[result.dtype] for result in around.stored)
    last = tirx.const(positions - 1, "int32")

    def line(number: Any) -> Stmt:
        place = first + tirx.min(number * run, last)
        results = around.store_flat(tirx.const(0, around.dtype), lead, place)
        return sequence([*_touches(results, number)])

    return loop_over("line", ceil_div(positions - 1, run) + 1, line)


def _touches(statement: Stmt, number: Var) -> Iterator[Stmt]:
    """The prefetches of what a statement accesses at a place that depends on a variable."""
    accesses: list[tuple[Any, Sequence[Any], int]] = []

    def load(read: TensorLoad) -> None:
        accesses.append((read.source, read.indices, 0))

    def store(write: BufferStore) -> None:
        accesses.append((write.buffer, write.indices, 1))

    tvm_ffi.structural_walk(statement, ((TensorLoad, load), (BufferStore, store)))
    for tensor, indices, writes in accesses:
        if _depend(indices, number):
            pointer = tirx.address_of(tirx.BufferLoad(tensor, indices))
            yield Evaluate(tirx.call_intrin("void", "tirx.prefetch", pointer, writes, 3, 1))


def _depend(indices: Sequence[Any], number: Var) -> bool:
    found: list[Var] = []
    for index in indices:
        tvm_ffi.structural_walk(index, (Var, found.append))
    return any(variable.same_as(number) for variable in found)
