"""Blocks of a launch as runs along several extents, which may be over symbols."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.tirx import ForKind, Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.sizes import at_hint, expression, is_long, is_number
from compiler.kernels.tir.loops import Body, loop_over, run_length, variable, vector_loop


@dataclass(frozen=True)
class IndexRun:
    """A run of indices from `first` on; of an extent over symbols its loop counts from there.

    That keeps indices short, so that they are seen to be inside.
    """

    first: Any
    length: Any
    sized: bool = False

    @staticmethod
    def whole(extent: Any) -> "IndexRun":
        """All indices of an extent."""
        return IndexRun(0, _extent(extent), not is_number(extent))

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

    def vectors(self, lanes: int, body: Body) -> Stmt:
        """A loop over the indices in vectors."""
        return vector_loop(self.length, lanes, lambda i: body(self.first + i))


RunsBody = Callable[[list[IndexRun], Any], Stmt]
"""The body of a block, by its runs along each extent and its number."""


def block_runs(blocks: Sequence[int], extents: Sequence[Any], body: RunsBody) -> Stmt:
    """A launch whose grid has `blocks` runs along each extent, outermost first.

    Of extents over symbols these are the blocks for the example sizes: for others they are as
    large.
    """
    sizes = [ceil_div(at_hint(n), count) for n, count in zip(extents, blocks, strict=True)]
    if all(is_number(extent) for extent in extents):
        return _numbered_blocks(blocks, extents, sizes, body)
    counts = [ceil_div(extent, size) for extent, size in zip(extents, sizes, strict=True)]

    def block(number: Any) -> Stmt:
        rest = number
        runs = list[IndexRun]()
        for axis in reversed(range(len(extents))):
            count = counts[axis]
            own = 0
            if is_long(count):
                outermost = not any(map(is_long, counts[:axis]))
                own = rest if outermost else rest % count
                rest = rest // count
            runs.insert(0, _run(own, sizes[axis], extents[axis]))
        return body(runs, number)

    return loop_over("block", _extent(prod(counts)), block, ForKind.PARALLEL)


def _numbered_blocks(
    blocks: Sequence[int], extents: Sequence[int], sizes: Sequence[int], body: RunsBody
) -> Stmt:
    """The launch for extents that are numbers.

    The attribute keeps a launch of one block together when its loop is simplified away.
    """

    def block(rest: Any) -> Stmt:
        runs = list[IndexRun]()
        for count, size, extent in reversed(list(zip(blocks, sizes, extents, strict=True))):
            own = rest % count if count > 1 else 0
            rest = rest // count if count > 1 else rest
            runs.insert(0, IndexRun(own * size, run_length(own, size, extent)))
        number: Any = 0
        for run, size, count in zip(runs, sizes, blocks, strict=True):
            number = number * count + run.first // size
        return body(runs, number)

    grid = loop_over("block", prod(blocks), block, ForKind.PARALLEL)
    if prod(blocks) > 1:
        return grid
    return tirx.AttrStmt(tirx.const(0, "int32"), "launch", tirx.const(1, "int32"), grid)


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
