"""Attention whose lengths are over symbols."""

from collections.abc import Callable
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
from compiler.kernels.tir.runs import Run


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

    def _for_scores(self, row: Any, count: Any, body: Callable[[Any, Any], Stmt]) -> list[Stmt]:
        lanes = self.nest.lanes
        whole = count // lanes
        steps = loop_over(
            "step", whole, lambda s: lane_loop(lanes, lambda lane: body(lane, s * lanes + lane))
        )
        start = whole * lanes
        tail = loop_over("lane", count - start, lambda lane: body(lane, start + lane))
        nothing = tirx.const(float("-inf"), "float32")
        beyond = Run(expression(count), expression(start + lanes - count), True).loop(
            "beyond", lambda key: tirx.BufferStore(self.held, nothing, [self.score(row, key)])
        )
        return [steps, tail, beyond]

    def _for_weights(self, count: Any, body: Callable[[Any, Any], Stmt]) -> Stmt:
        lanes = self.nest.lanes
        return loop_over(
            "step",
            ceil_div(count, lanes),
            lambda s: lane_loop(lanes, lambda lane: body(lane, s * lanes + lane)),
        )

    def _added(self, sums: list[Stmt], number: Any, runs: Any) -> list[Stmt]:
        return [tirx.IfThenElse(number > 0, sequence(sums), None)]
