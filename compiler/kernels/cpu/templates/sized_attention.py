"""Attention whose lengths are over symbols."""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.templates.attention_nest import (
    AttentionNest,
    Band,
    KeepScore,
    TileBody,
    fill_lanes,
)
from compiler.kernels.sizes import expression, is_number
from compiler.kernels.tir.loops import (
    lane_loop,
    loop_over,
    scratch,
    sequence,
)

WEIGHTLESS = 80.0
"""How much less than the largest a score is that weighs nothing: e ** -80 changes no sum that has a
1, and unlike that of -inf it never is a subnormal number, which takes 150 cycles."""


class SizedAttentionNest(AttentionNest):
    """An attention whose rows and keys are over symbols."""

    def place(self, matrix: Any, number: Any, base: Any, held: Var) -> Band:
        """A band with a body for each rest of rows."""
        return SizedBand(self, matrix, number, base, held)


class SizedBand(Band):
    """A band of an attention over symbols.

    After the last score of a row there are scores that weigh nothing.
    """

    def _tiles(self, rows: int, body: TileBody) -> Stmt:
        total = self.nest.rows
        if is_number(total):
            return super()._tiles(rows, body)

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
        tile = self.nest.tiles[0]
        panels = self.nest.keys

        def scores(first: Any, rows: int, number: Any) -> Stmt:
            chosen = compute(tile.vectors, panel, first, rows, number)
            for vectors in range(tile.vectors - 1, 0, -1) if rows == tile.rows else ():
                fewer = compute(vectors, panel, first, rows, number)
                fit = panel * panels.width + vectors * self.nest.lanes >= panels.columns
                chosen = tirx.IfThenElse(fit, fewer, chosen)
            return chosen

        return scores

    def _softmax(self, share: Var) -> list[Stmt]:
        """All rows' scores before all weights: where a row's last vector is read, the stores that
        it overlaps have come to the cache, as they can't be forwarded together."""
        count, lanes = self.nest.keys.columns, self.nest.lanes

        def scores(row: Any) -> Stmt:
            largest, hold = scratch("largest", lanes)
            top = tirx.BufferLoad(largest, [0])

            def beyond(lane: Any) -> Stmt:
                value = top - tirx.const(WEIGHTLESS, "float32")
                return tirx.BufferStore(self.held, value, [self.score(row, count + lane)])

            kept = tirx.BufferStore(share, top, [row])
            return sequence([hold, *self._score_row(row, largest), kept, lane_loop(lanes, beyond)])

        def weights(row: Any) -> Stmt:
            totals, hold = scratch("totals", lanes)
            top, once = scratch("top", 1)
            stored = tirx.BufferStore(top, tirx.BufferLoad(share, [row]), [0])
            return sequence([hold, once, stored, *self._weigh_row(row, share, top, totals)])

        return [loop_over("row", self.length, scores), loop_over("row", self.length, weights)]

    def _for_scores(self, count: Any, score: Callable[[Any], Any], keep: KeepScore) -> list[Stmt]:
        """Whole vectors; what is left of the last one is the end of a vector that overlaps.

        That is computed before scores take the places of what it reads.
        """
        lanes = self.nest.lanes
        whole = count // self.nest.lanes
        end, allocate = scratch("end", lanes)
        first = count - lanes

        def body(lane: Any, key: Any) -> Stmt:
            return keep(lane, key, score(key))

        def hold(lane: Any) -> Stmt:
            return tirx.BufferStore(end, score(first + lane), [lane])

        def store(lane: Any) -> Stmt:
            return keep(lane, first + lane, tirx.BufferLoad(end, [lane]))

        steps = loop_over(
            "step", whole, lambda s: lane_loop(lanes, lambda lane: body(lane, s * lanes + lane))
        )
        parts = [lane_loop(lanes, hold), steps, lane_loop(lanes, store)]
        few = loop_over("key", count, lambda key: body(0, key))
        rest = tirx.IfThenElse(expression(count) >= lanes, sequence(parts), few)
        return [allocate, tirx.IfThenElse(expression(whole * lanes) < count, rest, steps)]

    def _total(self, totals: Var, keys: Any, add: Callable[[Any, Any], Stmt]) -> list[Stmt]:
        lanes = self.nest.lanes

        def step(number: Any) -> Stmt:
            return lane_loop(lanes, lambda lane: add(lane, number * lanes + lane))

        return [fill_lanes(totals, 0.0, lanes), loop_over("step", ceil_div(keys, lanes), step)]

    def _added(self, sums: list[Stmt], number: Any, runs: Any) -> list[Stmt]:
        if is_number(runs):
            return super()._added(sums, number, runs)
        return [tirx.IfThenElse(number > 0, sequence(sums), None)]
