"""Matrices of a strided window, written into panels of columns that stream through the cache."""

from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.sizes import at_hint, is_long, is_number
from compiler.kernels.tir.loops import element_at, loop_over, sequence, vector_loop
from compiler.kernels.tir.runs import block_runs
from compiler.tensors.strides import StridedWindow

FILL_ELEMENTS = 1 << 14
"""Elements of an operand that one block writes into a workspace."""


@dataclass(frozen=True)
class Panels:
    """A window (batch..., lines, columns) as panels [batch, columns / width, lines, width].

    The columns that the last panel has too many are zeros. Lines may be left out: they are zeros.
    """

    window: StridedWindow
    width: int
    lanes: int

    @property
    def lines(self) -> int:
        """Lines of a matrix."""
        return self.window.shape[-2]

    @property
    def columns(self) -> int:
        """Columns of a matrix."""
        return self.window.shape[-1]

    @property
    def count(self) -> int:
        """Panels of a matrix."""
        return ceil_div(self.columns, self.width)

    @property
    def padded(self) -> int:
        """Columns of all panels."""
        return self.count * self.width

    @property
    def elements(self) -> int:
        """Elements of all panels."""
        return prod(self.window.shape[:-2]) * self.padded * self.lines

    def line(self, matrix: Any, panel: Any, line: Any) -> Any:
        """Where a panel's columns of a line begin."""
        return ((matrix * self.count + panel) * self.lines + line) * self.width

    def fill(self, source: Var, target: Var, keep: Var | None = None) -> Stmt:
        """The launch that writes the panels of all matrices.

        If there is a `keep`, a bool for each line, then lines are left out where it is false.
        """
        units = prod(self.window.shape[:-2]) * self.count
        run = max(1, FILL_ELEMENTS // (at_hint(self.lines) * self.width))

        def unit(number: Any) -> Stmt:
            several = is_long(self.count)
            matrix = number // self.count
            panel = number % self.count if several else 0
            return self._panel(source, target, keep, matrix, panel)

        blocks = ceil_div(at_hint(units), run)
        return block_runs((blocks,), (units,), lambda runs, _: runs[0].loop("unit", unit))

    def _panel(self, source: Var, target: Var, keep: Var | None, matrix: Any, panel: Any) -> Stmt:
        """A panel, or the narrower one after the last whole panel."""

        def lines(columns: Any) -> Stmt:
            return self._lines(source, target, keep, (matrix, panel, columns))

        if not is_number(self.columns):
            whole = panel < self.columns // self.width
            part = self._part(source, target, keep, matrix, panel)
            return tirx.IfThenElse(whole, lines(self.width), part)
        rest = self.columns % self.width
        if not rest:
            return lines(self.width)
        if self.count == 1:
            return lines(rest)
        return tirx.IfThenElse(panel < self.count - 1, lines(self.width), lines(rest))

    def _part(self, source: Var, target: Var, keep: Var | None, matrix: Any, panel: Any) -> Stmt:
        """The last panel over symbols: zeros, then the columns that there are, each as a whole."""
        assert keep is None, "lines are left out"
        base = matrix_start(self.window, matrix)
        start = self.line(matrix, panel, 0)
        count = tirx.min(tirx.const(self.width, "int32"), self.columns - panel * self.width)

        def clear(x: Any) -> Stmt:
            return tirx.BufferStore(target, tirx.const(0, "float32"), [start + x])

        def column(x: Any) -> Stmt:
            def one(k: Any) -> Stmt:
                at = base + element_offset(self.window, k, panel * self.width + x)
                value = element_at(source, at)
                return tirx.BufferStore(target, value, [start + k * self.width + x])

            return loop_over("line", self.lines, one)

        cleared = vector_loop(self.lines * self.width, self.lanes, clear)
        return sequence([cleared, loop_over("column", count, column)])

    def _lines(
        self, source: Var, target: Var, keep: Var | None, part: tuple[Any, Any, Any]
    ) -> Stmt:
        """The lines of a panel of a matrix that has so many columns, and zeros after them."""
        matrix, panel, columns = part
        base = matrix_start(self.window, matrix)

        def line(k: Any) -> Stmt:
            to = self.line(matrix, panel, k)

            def one(x: Any) -> Stmt:
                at = base + element_offset(self.window, k, panel * self.width + x)
                return tirx.BufferStore(target, element_at(source, at), [to + x])

            def clear(first: int) -> Stmt:
                zero = tirx.const(0, "float32")
                return vector_loop(
                    self.width - first,
                    self.lanes,
                    lambda x: tirx.BufferStore(target, zero, [to + first + x]),
                )

            parts = [vector_loop(columns, self.lanes, one)]
            if columns < self.width:
                parts.append(clear(columns))
            if keep is None:
                return sequence(parts)
            return tirx.IfThenElse(tirx.BufferLoad(keep, [k]), sequence(parts), clear(0))

        return loop_over("line", self.lines, line)


def matrix_start(window: StridedWindow, number: Any) -> Any:
    """Where a matrix of a window begins, given its number in the batch."""
    start = window.offset
    inner = prod(window.shape[:-2])
    for extent, stride in chain.from_iterable(window.axes[:-2]):
        inner //= extent
        if stride:
            start = start + number // inner % extent * stride
    return start


def element_offset(window: StridedWindow, row: Any, column: Any) -> Any:
    """The offset of an element in a matrix of a window, whose matrix axes have one stride each."""
    strides = window.stride(-2), window.stride(-1)
    assert strides[0] is not None, "rows have one stride"
    assert strides[1] is not None, "columns have one stride"
    return row * strides[0] + column * strides[1]
