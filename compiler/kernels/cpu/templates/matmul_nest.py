"""Matrix multiplications: lanes along the columns of B, rows of A broadcast.

    launch 0, 1  (only for an operand that the group computes, or a B that must be transposed)
      write the operand into a workspace
    launch 2
      for each block (runs of batches, panels of columns, runs of rows):
        for each panel of columns, then each tile of rows:
          tile = 0                                              rows x vectors registers
          for k: tile += broadcast(A[rows, k]) x B[k, panel]
          scratch = tile                                        on the stack
          for each row, vector of columns: store(epilogue(scratch))

A constant two-dimensional B is packed beforehand into panels [N / width, K, width] that stream
through the cache; a large one of several panels is copied into them by launch 1; any other B is
read as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import LINE
from compiler.kernels.cpu.prefetch import prefetch_share
from compiler.kernels.cpu.templates.panels import FILL_ELEMENTS
from compiler.kernels.cpu.tiling import (
    Tile,
    split_blocks,
)
from compiler.kernels.sizes import at_hint, expression, is_long, is_number, is_pinned
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import (
    FLOAT32,
    Arithmetic,
    Body,
    RegisterTile,
    buffer,
    element_at,
    loop_over,
    scratch,
    sequence,
    vector_at,
    vector_loop,
)
from compiler.kernels.tir.matmul import Matmul, gemm_result
from compiler.kernels.tir.runs import IndexRun, block_runs
from compiler.target.caches import TYPICAL_CACHE
from compiler.tensors.row_major import flatten_index, unflatten_index

ROWS_AHEAD = range(4, 9)
"""The rows of a single tile of float32 during which the next panel is prefetched: with fewer,
memory is busy anyway; with more, that gained on average nothing. Measured on an Emerald Rapids."""

COPIED_DEPTH, COPIED_ELEMENTS, COPIED_TILES = 512, 1 << 18, 8
"""Fewest lines and elements of a B, and fewest tiles of rows, for which its panels are copied: with
fewer, that gained nothing. Measured on an Emerald Rapids."""


class TileIndex(NamedTuple):
    """The batch, the panel of columns and the tile of rows of a register tile."""

    batch: Any
    panel: Any
    tile: Any


@dataclass(frozen=True)
class MatmulNest:
    """A matmul with its tile; `packed` when B is laid out in panels beforehand.

    `cache` is the bytes of a core's second-level cache. A `narrow` B has 16 bits, which are
    converted whenever they are read.
    """

    problem: Matmul
    around: FusionContext
    tile: Tile
    lanes: int
    packed: bool
    slots: float
    cache: int = TYPICAL_CACHE
    narrow: bool = False
    arithmetic: Arithmetic = FLOAT32
    tile_sums: Var = field(init=False, compare=False)

    def __post_init__(self) -> None:
        sums = buffer("sums", self.tile.rows * self.width * 2, self.arithmetic.dtype)
        object.__setattr__(self, "tile_sums", sums)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.tile.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of columns."""
        return ceil_div(self.problem.columns, self.width)

    @property
    def packing(self) -> str:
        """The packing of a constant B."""
        problem, width = self.problem, self.width
        missing = self.panels * width - problem.columns
        if problem.transposed[1]:
            return f"pad:{missing},0|reshape:{self.panels},{width},{problem.depth}|transpose:0,2,1"
        steps = f"reshape:{problem.depth},{problem.columns}|pad:0,{missing}"
        return f"{steps}|reshape:{problem.depth},{self.panels},{width}|transpose:1,0,2"

    def launches(self) -> Stmt:
        """All launches: write the operands that are not there yet, then multiply."""
        flip = self.problem.transposed[1] and not self.packed
        left, first = self._source(0, self.problem.left, False)
        right, second = self._source(1, self.problem.right, flip)
        return sequence([*first, *second, self._multiply(left, right)])

    def _source(self, position: int, shape: tuple[int, ...], flip: bool) -> tuple[Var, list[Stmt]]:
        """Where an operand is, and the launch that puts it there; `flip` transposes it."""
        if position and self.paneled:
            return self._panels(shape)
        as_stored = position == 1 and (self.packed or self.narrow)
        around = self.around
        number = around.stored_number(1) if as_stored else around.read_number(position)
        if number is not None and not flip:
            return self.around.reads[number], []
        target = buffer(f"operand{position}", prod(shape))
        rows = prod(shape[:-2]) * shape[-1] if flip else prod(shape[:-1])
        columns = shape[-2] if flip else shape[-1]

        def row(number: Any) -> Stmt:
            def one(x: Any) -> Stmt:
                lead = [x, number] if flip else [*unflatten_index(number, shape[:-1]), x]
                value = self.around.operand(position, lead)
                return tirx.BufferStore(target, value, [number * columns + x])

            return vector_loop(columns, self.lanes, one)

        blocks = ceil_div(at_hint(rows), max(1, FILL_ELEMENTS // at_hint(columns)))
        fill = block_runs((blocks,), (rows,), lambda runs, _: runs[0].loop("row", row))
        return target, [tirx.AllocBuffer(target), fill]

    @property
    def paneled(self) -> bool:
        """Whether the kernel writes a B that is not packed into panels, as it does for columns of
        any number.

        A long panel whose lines are far apart is read slowly by each tile of rows: the next line is
        not fetched ahead, and each is in another page.
        """
        problem = self.problem
        if not is_number(problem.columns):
            return True
        if self.packed or self.narrow or not all(map(is_number, (*problem.left, *problem.right))):
            return False
        long = problem.depth >= COPIED_DEPTH and self.panels > 1
        large = problem.depth * problem.columns >= COPIED_ELEMENTS
        return long and large and problem.rows >= COPIED_TILES * self.tile.rows

    def _panels(self, shape: tuple[int, ...]) -> tuple[Var, list[Stmt]]:
        """A workspace with the panels of B, and the launch that writes them."""
        units = prod(shape[:-2]) * self.panels
        target = buffer("panels", units * self.problem.depth * self.width)
        run = max(1, FILL_ELEMENTS // (at_hint(self.problem.depth) * self.width))
        fill = block_runs(
            (ceil_div(at_hint(units), run),),
            (units,),
            lambda runs, _: runs[0].loop("unit", lambda u: self._fill_panel(target, shape, u)),
        )
        return target, [tirx.AllocBuffer(target), fill]

    def _fill_panel(self, target: Var, shape: tuple[int, ...], unit: Any) -> Stmt:
        """Write a panel of B, with zeros after the last column, which vectors read."""
        panel = unit % self.panels
        depth = self.problem.depth
        width = self.width
        lead = row_index(unit // self.panels, shape[:-2])
        columns = self.problem.columns

        def element(k: Any, x: Any) -> Stmt:
            column = panel * width + x
            at = [column, k] if self.problem.transposed[1] else [k, column]
            value = self.around.operand(1, [*lead, *at])
            return tirx.BufferStore(target, value, [(unit * depth + k) * width + x])

        def zero(k: Any, x: Any) -> Stmt:
            none = tirx.const(0, "float32")
            return tirx.BufferStore(target, none, [(unit * depth + k) * width + x])

        def line(k: Any) -> Stmt:
            full = vector_loop(width, self.lanes, lambda x: element(k, x))
            if columns % width == 0:
                return full
            rest = columns % width
            part = vector_loop(rest, self.lanes, lambda x: element(k, x))
            zeros = vector_loop(width - rest, self.lanes, lambda x: zero(k, rest + x))
            return tirx.IfThenElse(panel < columns // width, full, sequence([part, zeros]))

        def sized_line(k: Any) -> Stmt:
            cleared = vector_loop(width, self.lanes, lambda x: zero(k, x))
            first = tirx.IfThenElse(panel < columns // width, tirx.Evaluate(0), cleared)
            count = tirx.min(tirx.const(width, "int32"), columns - panel * width)
            return sequence([first, loop_over("column", count, lambda x: element(k, x))])

        return loop_over("k", depth, line if is_number(columns) else sized_line)

    def _multiply(self, left: Var, right: Var) -> Stmt:
        problem = self.problem
        extents = (prod(problem.batch), self.panels, ceil_div(problem.rows, self.tile.rows))
        numbers = [*map(at_hint, extents)]
        blocks = split_blocks(self.slots * numbers[0], *numbers)

        def body(runs: list[IndexRun], number: Any) -> Stmt:
            def panel(batch: Any, number: Any) -> Stmt:
                def rows(tile: Any) -> Stmt:
                    return self._rows(left, right, TileIndex(batch, number, tile))

                return runs[2].loop("tile", rows)

            def one(batch: Any) -> Stmt:
                return runs[1].loop("panel", lambda number: panel(batch, number))

            mark = {"disable_lower_builtin": tirx.const(True, "bool")}
            shared = [tirx.AllocBuffer(self.tile_sums, mark)] if self.around.symbols else []
            return sequence([*shared, runs[0].loop("batch", one)])

        return block_runs(blocks, extents, body)

    def _rows(self, left: Var, right: Var, at: TileIndex) -> Stmt:
        """A tile, or the shorter one after the last whole tile: one of each number of rows where
        symbols decide it."""
        rows, total = self.tile.rows, self.problem.rows
        whole = self._columns(left, right, at, rows)
        if is_number(total):
            if total % rows == 0:
                return whole
            tail = self._columns(left, right, at, total % rows)
            return tail if total < rows else tirx.IfThenElse(at.tile < total // rows, whole, tail)
        tails: Any = None
        for rest in range(rows - 1, 0, -1):
            tail = self._columns(left, right, at, rest)
            tails = tirx.IfThenElse(tirx.EQ(expression(total % rows), rest), tail, tails)
        return tirx.IfThenElse(at.tile < total // rows, whole, tails)

    def _columns(self, left: Var, right: Var, at: TileIndex, rows: int) -> Stmt:
        """A panel, or the narrower one after the last whole panel. Over symbols, panels have zeros
        after the last column, which are not stored."""
        if self.around.symbols and (self.packed or self.paneled):
            return self._tile(left, right, at, rows, self.width)
        rest = self.problem.columns % self.width
        whole = self._tile(left, right, at, rows, self.width)
        if not rest:
            return whole
        tail = self._tile(left, right, at, rows, rest)
        if self.problem.columns < self.width:
            return tail
        return tirx.IfThenElse(at.panel < self.problem.columns // self.width, whole, tail)

    def _tile(self, left: Var, right: Var, at: TileIndex, rows: int, columns: int) -> Stmt:
        batch, panel, tile = at
        vectors = ceil_div(columns, self.lanes)
        registers = RegisterTile(rows, vectors, self.lanes, self.arithmetic)
        starts = [j * self.lanes for j in range(vectors)]
        if self._overlaps:
            starts[-1] = columns - self.lanes
        before = max(0, -starts[-1])
        pitch = self.width + before
        sums, allocate = self._scratch(rows * pitch)
        indices = self._batch_index(batch)
        a, b = self._matrix(0, batch), self._matrix(1, batch)
        first = self._first_row(tile, rows)

        def step(k: Any) -> Stmt:
            line = self._line(b, panel, k)
            multiplied = registers.step(
                lambda i: self._scalar(left, self._element(a, first + i, k)),
                lambda j: self._vector(right, line + starts[j]),
            )
            return sequence([*self._ahead(right, panel, tile, k), multiplied])

        def row(i: Any, number: Any) -> Stmt:
            def one(x: Any) -> Stmt:
                value = tirx.BufferLoad(sums, [i * pitch + before + x])
                return self._store(value, indices, number, panel * self.width + x)

            return self._stored(columns, panel, one)

        def place(i: int, j: int) -> Any:
            return i * pitch + before + starts[j]

        depth = self.problem.depth
        shift = self._shift(registers, right, self._head(b, panel))
        if shift:
            reduce = loop_over("k", depth, step)
            kept = registers.store(sums, place)
            summed = sequence([*registers.start(), reduce, *shift, kept])
        else:
            summed = registers.sum_up("k", depth, step, sums, place)
        return sequence([*allocate, summed, self._each_row(first, rows, row)])

    @property
    def _overlaps(self) -> bool:
        """Whether the last vector of a row of B begins before the end of the one before."""
        return not self.packed and not self.paneled

    def _batch_index(self, batch: Any) -> list[Any]:
        """The index of a matrix of the result."""
        index = row_index if self.around.symbols else unflatten_index
        return index(batch, self.problem.batch)

    def _is_rest(self, rows: int) -> bool:
        """Whether tiles of so many rows are what symbols leave of them."""
        return not is_number(self.problem.rows) and rows < self.tile.rows

    def _first_row(self, tile: Any, rows: int) -> Any:
        """The first row of a tile of so many: what is left of them is counted from the end, so
        that it is seen to be inside."""
        return self.problem.rows - rows if self._is_rest(rows) else tile * self.tile.rows

    def _scratch(self, elements: int) -> tuple[Var, list[Stmt]]:
        """A buffer for a tile's sums, and the statement that allocates it."""
        if self.around.symbols:
            return self.tile_sums, []
        sums, allocate = scratch("sums", elements, self.arithmetic.dtype)
        return sums, [allocate]

    def _each_row(self, first: Any, rows: int, body: Callable[[Any, Any], Stmt]) -> Stmt:
        """A loop over the rows of a tile, with their numbers in the tile and in the matrix.

        What divides the number of a row that is counted from the end has a variable to divide.
        """
        if not self._is_rest(rows):
            return loop_over("row", rows, lambda i: body(i, first + i))
        start = expression(first)
        return IndexRun(start, rows, True).loop("row", lambda row: body(row - start, row))

    def _stored(self, columns: int, panel: Any, one: Body) -> Stmt:
        """The loop over the columns of a row that are stored."""
        total, width = self.problem.columns, self.width
        zeros = self.around.symbols and (self.paneled or (self.packed and total % width > 0))
        if not zeros:
            return vector_loop(columns, self.lanes, one)
        whole = vector_loop(width, self.lanes, one)
        if self.paneled:
            start = panel * width
            run = IndexRun(start, expression(total) - start, True)
            rest = run.loop("column", lambda column: one(column - start))
        else:
            rest = vector_loop(total % width, self.lanes, one)
        return tirx.IfThenElse(panel < total // width, whole, rest)

    def _ahead(self, right: Var, panel: Any, tile: Any, k: Any) -> list[Stmt]:
        """Prefetch a share of the next panel, which the tiles of rows read after this one.

        Otherwise the first tile would wait for memory and the others leave it idle.
        """
        run = self.problem.depth * self.width
        last = self.panels * run - 1
        tiles = ceil_div(self.problem.example.rows, self.tile.rows)
        line = LINE * (2 if self.narrow else 1)
        if not self.packed or not self._waits(tiles) or (last + 1) * 64 // line <= self.cache // 2:
            return []
        share = ceil_div(ceil_div(self.width, line), tiles) * line
        number = tile * self.problem.depth + k
        return prefetch_share(right, (panel + 1) * run, run, number, share=share, last=last)

    def _waits(self, tiles: int) -> bool:
        """Whether so many tiles of rows would wait for the next panel."""
        few = self.arithmetic is FLOAT32 and self.problem.example.rows in ROWS_AHEAD
        return tiles > 1 or few

    def _scalar(self, left: Var, position: Any) -> Any:
        """An element of A."""
        return element_at(left, position)

    def _vector(self, right: Var, position: Any) -> Any:
        """A vector of B."""
        return vector_at(right, position, self.lanes)

    def _shift(self, registers: RegisterTile, right: Var, head: Any) -> list[Stmt]:
        """The statements between the sums and the epilogue; a panel's head is at `head`."""
        return []

    def _head(self, matrix: Any, panel: Any) -> Any:
        """Where what comes before a panel's lines begins."""
        return self._line(matrix, panel, 0)

    def _matrix(self, position: int, batch: Any) -> Any:
        """Where an operand's matrix of a batch begins."""
        shape = self.problem.right if position else self.problem.left
        if self.problem.shared or len(shape) < 3:
            return 0
        lead = shape[:-2]
        index = self._batch_index(batch)
        own = index[len(index) - len(lead) :]
        batch = self.problem.batch[len(index) - len(lead) :]
        ones = map(is_pinned, lead, batch)
        pinned = [0 if one else i for i, one in zip(own, ones, strict=True)]
        return flatten_index(pinned, lead) * self._size(position)

    def _size(self, position: int) -> int:
        """Elements from one matrix of an operand to the next."""
        if position and self.paneled:
            return self.panels * self.problem.depth * self.width
        shape = self.problem.right if position else self.problem.left
        return shape[-1] * shape[-2]

    def _element(self, matrix: Any, row: Any, k: Any) -> Any:
        if self.problem.transposed[0]:
            return matrix + k * self.problem.rows + row
        return matrix + row * self.problem.depth + k

    def _line(self, matrix: Any, panel: Any, k: Any) -> Any:
        """Where a panel's columns of a line of B begin."""
        if self.packed or self.paneled:
            return matrix + (panel * self.problem.depth + k) * self.width
        return matrix + k * self.problem.columns + panel * self.width

    def _store(self, value: Any, batch: list[Any], row: Any, column: Any) -> Stmt:
        problem, around = self.problem, self.around
        lead = around.shape[: len(around.shape) - (len(problem.right) > 1)]
        at = row_index(row, lead) if problem.shared else [*batch, row][: len(lead)]
        at = [*at, column] if len(problem.right) > 1 else at
        return around.store(gemm_result(around, problem, value, at), at)


def row_index(row: Any, lead: tuple[int, ...]) -> list[Any]:
    """A row's index in the axes before the columns.

    The first takes no remainder: with one LLVM has written beyond the result.
    """
    if not lead:
        return []
    long = [axis for axis, extent in enumerate(lead) if is_long(extent)]
    if len(long) == 1 and not is_number(lead[long[0]]):
        return [row if axis in long else 0 for axis in range(len(lead))]
    return [row // prod(lead[1:]), *unflatten_index(row, lead[1:])]
