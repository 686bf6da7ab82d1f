"""Blocks of a launch as runs along several extents, which may be over symbols."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.tirx import ForKind, Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.sizes import at_hint, expression, is_long, is_number
from compiler.kernels.tir.loops import Body, block_loops, loop_over, variable


@dataclass(frozen=True)
class IndexRun:
    """A run of indices from `first` on; of an extent over symbols its loop counts from there.

    That keeps indices short, so that they are seen to be inside.
    """

    first: Any
    length: Any
    sized: bool = False

    @staticmethod
    def between(first: Any, last: Any, extent: Any) -> "IndexRun":
        """The indices from one on to before another that are inside an extent over symbols."""
        own = tirx.max(tirx.const(0, "int32"), first)
        return IndexRun(own, tirx.min(expression(extent), last) - own, True)

    def loop(self, name: str, body: Body) -> Stmt:
        """A loop over the indices."""
        if not self.sized:
            return loop_over(name, self.length, lambda i: body(self.first + i))
        index = variable(name)
        return tirx.For(index, self.first, self.length, ForKind.SERIAL, body(index))


RunsBody = Callable[[list[IndexRun], Any], Stmt]
"""The body of a block, by its runs along each extent and its number."""


def block_runs(blocks: Sequence[int], extents: Sequence[Any], body: RunsBody) -> Stmt:
    """As `block_loops`: a launch of `blocks` runs along each extent, outermost first.

    Of extents over symbols these are the blocks for the example sizes: for others they are as
    large.
    """
    if all(is_number(extent) for extent in extents):

        def plain(firsts: list[Any], lengths: list[Any]) -> Stmt:
            pairs = zip(firsts, lengths, strict=True)
            runs = [ceil_div(n, count) for n, count in zip(extents, blocks, strict=True)]
            number: Any = 0
            for first, run, count in zip(firsts, runs, blocks, strict=True):
                number = number * count + first // run
            return body([IndexRun(first, length) for first, length in pairs], number)

        return block_loops(blocks, extents, plain)
    sizes = [ceil_div(at_hint(n), count) for n, count in zip(extents, blocks, strict=True)]
    counts = [ceil_div(extent, size) for extent, size in zip(extents, sizes, strict=True)]

    def block(number: Any) -> Stmt:
        rest, runs = number, list[IndexRun]()
        for axis in reversed(range(len(extents))):
            count, own = counts[axis], 0
            if is_long(count):
                outermost = not any(map(is_long, counts[:axis]))
                own = rest if outermost else rest % count
                rest = rest // count
            runs.insert(0, _run(own, sizes[axis], extents[axis]))
        return body(runs, number)

    return loop_over("block", _extent(prod(counts)), block, ForKind.PARALLEL)


def _run(own: Any, size: int, extent: Any) -> IndexRun:
    first = own * size
    if isinstance(own, int):
        return IndexRun(first, _extent(extent), not is_number(extent))
    if is_number(extent) and extent % size == 0:
        return IndexRun(first, size)
    left = expression(extent) - first
    return IndexRun(first, tirx.min(tirx.const(size, "int32"), left), True)


def _extent(extent: Any) -> Any:
    return extent if is_number(extent) else expression(extent)


def block_count(blocks: Sequence[int], extents: Sequence[Any]) -> Any:
    """The number of blocks of `block_runs`."""
    sizes = [ceil_div(at_hint(n), count) for n, count in zip(extents, blocks, strict=True)]
    return prod(ceil_div(extent, size) for extent, size in zip(extents, sizes, strict=True))
