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
from compiler.kernels.cpu.convolution import LINE
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import loop_over, sequence
from compiler.tensors.dtypes import ELEMENT_BYTES

FIRST_LEVEL, SECOND_LEVEL = 3, 2
"""LLVM's numbers of the caches that lines are prefetched into."""

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


def prefetch_line(
    tensor: Any, indices: Sequence[Any], level: int = FIRST_LEVEL, writes: int = 0
) -> Stmt:
    """Prefetch the cache line of an element into a cache of some level."""
    pointer = tirx.address_of(tirx.BufferLoad(tensor, indices))
    return Evaluate(tirx.call_intrin("void", "tirx.prefetch", pointer, writes, level, 1))


def prefetch_share(
    tensor: Any, start: Any, run: Any, number: Any, share: int, last: int
) -> list[Stmt]:
    """Prefetch a share of a run of elements, by its number, into the second-level cache.

    Shares after the end of the run or of the tensor, whose `last` element is given, are its end.
    """

    def line(first: int) -> Stmt:
        place = start + at_most(number * share + first, run - 1)
        return prefetch_line(tensor, [at_most(place, last)], SECOND_LEVEL)

    return [line(first) for first in range(0, share, LINE)]


def at_most(number: Any, limit: Any) -> Any:
    """The lesser of two numbers."""
    return tirx.min(number, tirx.const(limit, "int32") if isinstance(limit, int) else limit)


def _touches(statement: Stmt, number: Var) -> Iterator[Stmt]:
    """The prefetches of what a statement accesses at a place that depends on a variable."""
    accesses: list[tuple[Any, Sequence[Any], int]] = []

    def load(read: TensorLoad) -> None:
        accesses.append((read.source, read.indices, 0))

    def store(write: BufferStore) -> None:
        accesses.append((write.buffer, write.indices, 1))

    tvm_ffi.structural_walk(statement, ((TensorLoad, load), (BufferStore, store)))
    for tensor, indices, writes in accesses:
        variables: list[Var] = []
        for index in indices:
            tvm_ffi.structural_walk(index, (Var, variables.append))
        if any(variable.same_as(number) for variable in variables):
            yield prefetch_line(tensor, indices, writes=writes)
