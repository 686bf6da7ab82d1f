"""Attention whose lengths are over symbols."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.templates.attention_nest import AttentionNest, Band, TileBody
from compiler.kernels.sizes import expression
from compiler.kernels.tir.loops import (
    lane_loop,
    loop_over,
    sequence,
)


class SizedAttentionNest(AttentionNest):
    """An attention whose rows and keys are over symbols."""

    def place(self, matrix: Any, number: Any, base: Any, held: Var) -> Band:
        """A band with a body for each rest of rows."""
        return SizedBand(self, matrix, number, base, held)


class SizedBand(Band):
    """A band of an attention over symbols.

    After the last score of a row its vector has what weighs nothing.
    """

    def _tiles(self, rows: int, body: TileBody) -> Stmt:
        total = self.nest.rows

        def one(number: Any) -> Stmt:
            first = number * rows
            chosen: Any = None
            for rest in range(rows - 1, 0, -1):
                tail = body(first, rest, expression(total - rest))
                chosen = tirx.IfThenElse(tirx.EQ(expression(total % rows), rest), tail, chosen)
            whole = self.first + first + rows <= total
            return tirx.IfThenElse(whole, body(first, rows, self.first + first), chosen)

        return loop_over("tile", (self.length + (rows - 1)) // rows, one)

    def _of_vectors(self, compute: Callable[..., Stmt], panel: Any) -> TileBody:
        """A whole tile of rows leaves out vectors without keys in the last panel."""
        tile, panels = self.nest.tiles[0], self.nest.keys

        def scores(first: Any, rows: int, number: Any) -> Stmt:
            chosen = compute(tile.vectors, panel, first, rows, number)
            for vectors in range(tile.vectors - 1, 0, -1) if rows == tile.rows else ():
                fewer = compute(vectors, panel, first, rows, number)
                fit = panel * panels.width + vectors * self.nest.lanes >= panels.columns
                chosen = tirx.IfThenElse(fit, fewer, chosen)
            return chosen

        return scores

    def _for_scores(self, row: Any, count: Any, body: Callable[[Any, Any], Stmt]) -> list[Stmt]:
        lanes = self.nest.lanes
        whole = count // lanes
        steps = loop_over(
            "step", whole, lambda s: lane_loop(lanes, lambda lane: body(lane, s * lanes + lane))
        )
        start = whole * lanes
        nothing = tirx.const(float("-inf"), "float32")
        beyond = lane_loop(
            lanes,
            lambda lane: tirx.BufferStore(self.held, nothing, [self.score(row, count + lane)]),
        )
        return [steps, *self._tail(start, count, body), beyond]

    def _tail(self, start: Any, count: Any, body: Callable[[Any, Any], Stmt]) -> Iterator[Stmt]:
        """What is left of a vector, in vectors of half of its lanes, a quarter, and so on."""
        lanes = self.nest.lanes
        while lanes > 1:
            first = start + (count - start) // lanes * lanes
            lanes //= 2
            part = lane_loop(lanes, partial(_moved, body, first))
            yield tirx.IfThenElse(expression(first + lanes) <= count, part, None)

    def _for_weights(self, count: Any, body: Callable[[Any, Any], Stmt]) -> Stmt:
        lanes = self.nest.lanes
        return loop_over(
            "step",
            ceil_div(count, lanes),
            lambda s: lane_loop(lanes, lambda lane: body(lane, s * lanes + lane)),
        )

    def _added(self, sums: list[Stmt], number: Any, runs: Any) -> list[Stmt]:
        return [tirx.IfThenElse(number > 0, sequence(sums), None)]


def _moved(body: Callable[[Any, Any], Stmt], first: Any, lane: Any) -> Stmt:
    """An element of a vector that begins at `first`."""
    return body(lane, first + lane)
