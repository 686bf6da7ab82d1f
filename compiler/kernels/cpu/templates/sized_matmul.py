"""Matrix multiplications whose rows, columns or depth are over symbols."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.cpu.templates.matmul_nest import MatmulNest, row_index
from compiler.kernels.sizes import expression, is_number
from compiler.kernels.tir.loops import (
    Body,
    buffer,
    loop_over,
    sequence,
    vector_loop,
)
from compiler.kernels.tir.runs import IndexRun


@dataclass(frozen=True)
class SizedMatmulNest(MatmulNest):
    """A matmul over symbols: a body for each rest of rows, and panels of B made for all columns.

    `tile_sums` are the sums of any of its tiles.
    """

    tile_sums: Var = field(init=False, compare=False)

    def __post_init__(self) -> None:
        sums = buffer("sums", self.tile.rows * self.width * 2, self.arithmetic.dtype)
        object.__setattr__(self, "tile_sums", sums)

    @property
    def paneled(self) -> bool:
        """Whether the kernel writes B into panels, as symbols decide the columns."""
        return not is_number(self.problem.columns)

    def _shared(self) -> list[Stmt]:
        mark = {"disable_lower_builtin": tirx.const(True, "bool")}
        return [tirx.AllocBuffer(self.tile_sums, mark)]

    def _scratch(self, elements: int) -> tuple[Var, list[Stmt]]:
        return self.tile_sums, []

    def _rows(self, left: Var, right: Var, batch: Any, panel: Any, tile: Any) -> Stmt:
        """A whole tile, or one of the tiles of the rows after the last whole one."""
        rows, total = self.tile.rows, self.problem.rows
        if is_number(total):
            return super()._rows(left, right, batch, panel, tile)
        whole = self._columns(left, right, batch, panel, tile, rows)
        rests: Any = None
        for rest in range(rows - 1, 0, -1):
            tail = self._columns(left, right, batch, panel, tile, rest)
            rests = tirx.IfThenElse(tirx.EQ(expression(total % rows), rest), tail, rests)
        return tirx.IfThenElse(tile < total // rows, whole, rests)

    def _batch_index(self, batch: Any) -> list[Any]:
        return row_index(batch, self.problem.batch)

    def _first_row(self, tile: Any, rows: int) -> Any:
        """As if from the end for what is left of them, so that it is seen to be inside."""
        total = self.problem.rows
        if is_number(total) or rows == self.tile.rows:
            return super()._first_row(tile, rows)
        return total - rows

    def _each_row(self, first: Any, rows: int, body: Callable[[Any, Any], Stmt]) -> Stmt:
        """As counted from the first: what divides a row's number has a variable to divide."""
        if is_number(self.problem.rows) or rows == self.tile.rows:
            return super()._each_row(first, rows, body)
        start = expression(first)
        return IndexRun(start, rows, True).loop("row", lambda row: body(row - start, row))

    def _columns(self, left: Var, right: Var, batch: Any, panel: Any, tile: Any, rows: int) -> Stmt:
        """All columns of a panel: those after the last are zeros that are not stored."""
        if self.packed or self.paneled:
            return self._tile(left, right, batch, panel, tile, rows, self.width)
        return super()._columns(left, right, batch, panel, tile, rows)

    def _stored(self, columns: int, panel: Any, one: Body) -> Stmt:
        total, width = self.problem.columns, self.width
        if not self.paneled and (not self.packed or total % width == 0):
            return super()._stored(columns, panel, one)
        whole = vector_loop(width, self.lanes, one)
        start = panel * width
        rest = vector_loop(total - total // width * width, self.lanes, one)
        if self.paneled:
            run = IndexRun(start, expression(total) - start, True)
            rest = run.loop("column", lambda column: one(column - start))
        return tirx.IfThenElse(panel < total // width, whole, rest)

    def _fill_panel(self, target: Var, shape: tuple[int, ...], unit: Any) -> Stmt:
        """Write a panel of B, with zeros after the last column."""
        panel, depth, width = unit % self.panels, self.problem.depth, self.width
        lead = row_index(unit // self.panels, shape[:-2])
        columns, start = self.problem.columns, panel * width
        count = tirx.min(tirx.const(width, "int32"), columns - start)

        def line(k: Any) -> Stmt:
            to = (unit * depth + k) * width

            def one(x: Any) -> Stmt:
                at = [start + x, k] if self.problem.transposed[1] else [k, start + x]
                value = self.around.operand(1, [*lead, *at])
                return tirx.BufferStore(target, value, [to + x])

            def zero(x: Any) -> Stmt:
                return tirx.BufferStore(target, tirx.const(0, "float32"), [to + x])

            cleared = vector_loop(width, self.lanes, zero)
            first = tirx.IfThenElse(panel < columns // width, tirx.Evaluate(0), cleared)
            return sequence([first, loop_over("column", count, one)])

        return loop_over("k", depth, line)
