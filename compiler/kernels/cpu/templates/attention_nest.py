"""Attention: softmax(scores(Q K^T)) V with the scores of a band of rows in the cache.

launch 0, 1
  write K^T and V into panels, zeros for the rows of V that are left out
launch 2
  for each block (runs of matrices, runs of bands of rows):
    for each panel of keys, then each tile of rows:
      scores = Q K^T                                        rows x vectors registers
    for each row:
      largest = max(scores = score(scores))
      total = sum(scores = e ** (scores - largest))
    for each run of keys, panel of columns, tile of rows:
      sums += scores V                                      rows x vectors registers
    for each row: store(sums / total)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.graph.attention import Attention
from compiler.graph.windows import StridedOperand
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.templates.panels import Panels, element_offset, matrix_start
from compiler.kernels.cpu.tiling import (
    Tile,
    split_blocks,
)
from compiler.kernels.group import Group
from compiler.kernels.long_sums import run_of
from compiler.kernels.ops.common import cast, multiply
from compiler.kernels.ops.mathematics import call
from compiler.kernels.sizes import at_hint, is_number
from compiler.kernels.tir.attention import scores_at
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import (
    RegisterTile,
    buffer,
    element_at,
    loop_over,
    loop_over_lanes,
    run_length,
    scratch,
    sequence,
    store_vector,
    vector_at,
    vector_loop,
)
from compiler.kernels.tir.runs import IndexRun, block_count, block_runs
from compiler.tensors.dtypes import NARROW_FLOATS

KeepScore = Callable[[Any, Any, Any], Stmt]
"""The statement that keeps the score of a lane and a key."""

TileBody = Callable[[Any, int, Any], Stmt]
"""A tile of rows by the first one in its band, how many they are, and the first in the matrix."""


@dataclass(frozen=True)
class AttentionNest:
    """An attention with the register tiles of its GEMMs and the rows of a band.

    `slots` is the estimated cost of one matrix; `near_bytes` are read fast again and again.
    """

    group: Group
    attention: Attention
    around: FusionContext
    tiles: tuple[Tile, Tile]
    lanes: int
    near_bytes: int
    band: int
    slots: float

    @property
    def rows(self) -> int:
        """Rows of Q."""
        return self.attention.query.window.shape[-2]

    @property
    def depth(self) -> int:
        """Columns of Q and K."""
        return self.attention.query.window.shape[-1]

    @property
    def keys(self) -> Panels:
        """The panels of K^T."""
        return self._panels(self.attention.key, self.tiles[0])

    @property
    def values(self) -> Panels:
        """The panels of V."""
        return self._panels(self.attention.value, self.tiles[1])

    @property
    def pitch(self) -> int:
        """Scores from one row to the next, which fall in other sets of the first-level cache."""
        return self.keys.padded + self.lanes

    @property
    def scratch_elements(self) -> int:
        """Elements that a block keeps of a band: scores, sums, and rows of Q in 16 bits."""
        return self.band * (self.pitch + self.values.padded + self.converted_depth)

    @property
    def converted_depth(self) -> int:
        """The elements of a row of Q that a block converts before it reads them; 0 for float32."""
        short = self.group.values[self.attention.query.source].dtype in NARROW_FLOATS
        return self.depth if short else 0

    def _panels(self, operand: StridedOperand, tile: Tile) -> Panels:
        return Panels(operand.window, tile.vectors * self.lanes, self.lanes)

    def launches(self) -> Stmt:
        """All launches: write the panels, then attend."""
        parts: list[Stmt] = []
        packed: list[Var] = []
        operands = (self.attention.key, self.keys), (self.attention.value, self.values)
        for name, (operand, panels) in zip(("keys", "values"), operands, strict=True):
            target = buffer(name, panels.elements)
            keep = None if operand.keep is None else self.around.reads[operand.keep]
            parts += [
                tirx.AllocBuffer(target),
                panels.fill(self.around.reads[operand.source], target, keep),
            ]
            packed.append(target)
        return sequence([*parts, *self._attend(packed[0], packed[1])])

    def _attend(self, keys: Var, values: Var) -> list[Stmt]:
        extents = prod(self.attention.batch), ceil_div(self.rows, self.band)
        numbers = [*map(at_hint, extents)]
        blocks = split_blocks(self.slots * numbers[0], *numbers)
        held = buffer("held", block_count(blocks, extents) * self.scratch_elements)

        def body(runs: list[IndexRun], block: Any) -> Stmt:
            own = block * self.scratch_elements

            def matrix(number: Any) -> Stmt:
                return runs[1].loop(
                    "band", lambda band: self.place(number, band, own, held).compute(keys, values)
                )

            return runs[0].loop("matrix", matrix)

        return [tirx.AllocBuffer(held), block_runs(blocks, extents, body)]

    def place(self, matrix: Any, number: Any, base: Any, held: Var) -> "Band":
        """A band of a matrix, whose scores begin at `base` of `held`."""
        return Band(self, matrix, number, base, held)


@dataclass(frozen=True)
class Band:
    """A band of rows of one matrix; its scores begin at `base` of `held`, its sums after them."""

    nest: AttentionNest
    matrix: Any
    number: Any
    base: Any
    held: Var

    @property
    def first(self) -> Any:
        """The first row."""
        return self.number * self.nest.band

    @property
    def length(self) -> Any:
        """The number of rows."""
        return run_length(self.number, self.nest.band, self.nest.rows)

    def score(self, row: Any, key: Any) -> Any:
        """Where a row's score is, or its weight."""
        return self.base + row * self.nest.pitch + key

    def sum(self, row: Any, column: Any) -> Any:
        """Where a row's sum of a column of V is."""
        nest = self.nest
        return self.base + nest.band * nest.pitch + row * nest.values.padded + column

    def query(self, row: Any, k: Any) -> Any:
        """Where an element of a row of Q is that was converted."""
        nest = self.nest
        before = nest.band * (nest.pitch + nest.values.padded)
        return self.base + before + row * nest.converted_depth + k

    def compute(self, keys: Var, values: Var) -> Stmt:
        """The results of the rows."""
        share, allocate = scratch("share", self.nest.band)
        store = loop_over("row", self.length, lambda i: self._store(i, share))
        scores = [*self._convert(), self._scores(keys)]
        return sequence([allocate, *scores, *self._softmax(share), *self._sums(values), store])

    def _convert(self) -> list[Stmt]:
        """Convert the rows of Q, if they have 16 bits."""
        nest = self.nest
        if not nest.converted_depth:
            return []

        def row(i: Any) -> Stmt:
            def one(k: Any) -> Stmt:
                value = self._query(self.first + i, k)
                return tirx.BufferStore(self.held, value, [self.query(i, k)])

            return vector_loop(nest.depth, nest.lanes, one)

        return [loop_over("row", self.length, row)]

    def _query(self, row: Any, k: Any) -> Any:
        """An element of Q."""
        query = self.nest.attention.query
        start = matrix_start(query.window, self.matrix)
        source = self.nest.around.reads[query.source]
        return element_at(source, start + element_offset(query.window, row, k))

    def _scores(self, keys: Var) -> Stmt:
        """Q K^T."""
        nest, panels = self.nest, self.nest.keys
        tile = nest.tiles[0]

        def compute(vectors: int, panel: Any, first: Any, rows: int, number: Any) -> Stmt:
            registers = RegisterTile(rows, vectors, nest.lanes)

            def step(k: Any) -> Stmt:
                line = panels.line(self.matrix, panel, k)

                def scalar(i: int) -> Any:
                    if nest.converted_depth:
                        return tirx.BufferLoad(self.held, [self.query(first + i, k)])
                    return self._query(number + i, k)

                return registers.step(
                    scalar,
                    lambda j: vector_at(keys, line + j * nest.lanes, nest.lanes),
                )

            def place(i: int, j: int) -> Any:
                return self.score(first + i, panel * panels.width + j * nest.lanes)

            return registers.sum_up("k", nest.depth, step, self.held, place)

        def panel(number: Any) -> Stmt:
            return self._tiles(tile.rows, self._of_vectors(compute, number))

        return loop_over("panel", panels.count, panel)

    def _of_vectors(self, compute: Callable[..., Stmt], panel: Any) -> TileBody:
        """The scores of a tile with a panel of keys, all vectors of it."""
        return partial(compute, self.nest.tiles[0].vectors, panel)

    def _tiles(self, rows: int, body: TileBody) -> Stmt:
        """A loop over tiles of rows, the last perhaps of fewer."""
        total = self.nest.rows
        rest = total % rows

        def one(number: Any) -> Stmt:
            first = number * rows
            if total < rows:
                return body(first, rest, self.first + first)
            if not rest:
                return body(first, rows, self.first + first)
            whole = self.first + first + rows <= total
            tiles = (body(first, count, self.first + first) for count in (rows, rest))
            return tirx.IfThenElse(whole, *tiles)

        length = self.length
        tiles = ceil_div(length, rows) if isinstance(length, int) else (length + rows - 1) // rows
        return loop_over("tile", tiles, one)

    def _softmax(self, share: Var) -> list[Stmt]:
        """The weights of all rows but for their sums, whose inverses become the rows' shares."""

        def row(number: Any) -> Stmt:
            largest, hold = scratch("largest", self.nest.lanes)
            totals, keep = scratch("totals", self.nest.lanes)
            top, once = scratch("top", 1)
            scores = self._score_row(number, largest)
            stored = tirx.BufferStore(top, tirx.BufferLoad(largest, [0]), [0])
            weights = self._weigh_row(number, share, top, totals)
            return sequence([hold, keep, once, *scores, stored, *weights])

        return [loop_over("row", self.length, row)]

    def _score_row(self, row: Any, largest: Var) -> list[Stmt]:
        """The scores of a row, of which the largest is in the first lane then."""
        nest, attention = self.nest, self.nest.attention
        factor = attention.query.factor * attention.key.factor
        at = [*scores_at(nest.group, attention, self.matrix), self.first + row]
        scores = nest.group.operators[attention.softmax].operand(0)

        def score(key: Any) -> Any:
            value = _scaled(tirx.BufferLoad(self.held, [self.score(row, key)]), factor)
            return nest.around.element(scores, [*at, key], value)

        def keep(lane: Any, key: Any, value: Any) -> Stmt:
            place = [self.score(row, key)]
            more = tirx.max(tirx.BufferLoad(largest, [lane]), tirx.BufferLoad(self.held, place))
            return sequence(
                [
                    tirx.BufferStore(self.held, value, place),
                    tirx.BufferStore(largest, more, [lane]),
                ]
            )

        return [
            fill_lanes(largest, float("-inf"), nest.lanes),
            *self._for_scores(nest.keys.columns, score, keep),
            *_across(largest, nest.lanes, tirx.max),
        ]

    def _weigh_row(self, row: Any, share: Var, top: Var, totals: Var) -> list[Stmt]:
        """The weights of a row whose largest score is `top`, and its share."""
        nest = self.nest

        def weight(lane: Any, key: Any) -> Stmt:
            place = [self.score(row, key)]
            below = tirx.BufferLoad(self.held, place) - tirx.BufferLoad(top, [0])
            more = tirx.BufferLoad(totals, [lane]) + tirx.BufferLoad(self.held, place)
            return sequence(
                [
                    tirx.BufferStore(self.held, call("decay", below), place),
                    tirx.BufferStore(totals, more, [lane]),
                ]
            )

        factor = tirx.const(nest.attention.value.factor, "float32")
        return [
            *self._total(totals, nest.keys.columns, weight),
            *_across(totals, nest.lanes, lambda a, b: a + b),
            tirx.BufferStore(share, factor / tirx.BufferLoad(totals, [0]), [row]),
        ]

    def _for_scores(self, count: Any, score: Callable[[Any], Any], keep: KeepScore) -> list[Stmt]:
        """The loop over a row's scores, which are kept by a lane and a key."""
        lanes = self.nest.lanes
        return [loop_over_lanes(count, lanes, lambda lane, key: keep(lane, key, score(key)))]

    def _total(self, totals: Var, keys: Any, add: Callable[[Any, Any], Stmt]) -> list[Stmt]:
        """The sums of the keys of each lane; `add` gets a lane and a key. Long ones are in runs."""
        lanes = self.nest.lanes
        run = run_of(ceil_div(keys, lanes)) * lanes
        if run >= keys:
            return [fill_lanes(totals, 0.0, lanes), loop_over_lanes(keys, lanes, add)]
        whole, allocate = scratch("whole", lanes)

        def one(first: Any, length: int) -> Stmt:
            both = vector_at(whole, 0, lanes) + vector_at(totals, 0, lanes)
            return sequence(
                [
                    fill_lanes(totals, 0.0, lanes),
                    loop_over_lanes(length, lanes, lambda lane, key: add(lane, first + key)),
                    store_vector(whole, 0, both, lanes),
                ]
            )

        runs, rest = divmod(keys, run)
        parts = [allocate, fill_lanes(whole, 0.0, lanes)]
        parts.append(loop_over("run", runs, lambda number: one(number * run, run)))
        parts += [one(runs * run, rest)] if rest else []
        return [*parts, store_vector(totals, 0, vector_at(whole, 0, lanes), lanes)]

    def _sums(self, values: Var) -> list[Stmt]:
        """The weights times V, some keys at a time, whose lines of a panel fit the first cache."""
        nest = self.nest
        panels = self.nest.values
        tile = self.nest.tiles[1]
        run = max(1, nest.near_bytes // (panels.width * 4))
        runs = ceil_div(panels.lines, run)
        run = ceil_div(panels.lines, runs) if is_number(runs) else run

        def compute(number: Any, panel: Any, first: Any, rows: int, _: Any) -> Stmt:
            registers = RegisterTile(rows, tile.vectors, nest.lanes)

            def step(k: Any) -> Stmt:
                line = panels.line(self.matrix, panel, number * run + k)
                return registers.step(
                    lambda i: tirx.BufferLoad(self.held, [self.score(first + i, number * run + k)]),
                    lambda j: vector_at(values, line + j * nest.lanes, nest.lanes),
                )

            def place(i: int, j: int) -> Any:
                return self.sum(first + i, panel * panels.width + j * nest.lanes)

            length = run_length(number, run, panels.lines)
            added = self._added(registers.add(self.held, place), number, runs)
            kept = registers.store(self.held, place)
            return sequence([*registers.start(), loop_over("k", length, step), *added, kept])

        def keys(number: Any) -> Stmt:
            def panel(p: Any) -> Stmt:
                return self._tiles(tile.rows, partial(compute, number, p))

            return loop_over("panel", panels.count, panel)

        products = loop_over("run", runs, keys)
        several = is_number(runs) and runs > 1
        return [self._clear(), products] if several else [products]

    def _added(self, sums: list[Stmt], number: Any, runs: Any) -> list[Stmt]:
        """Add the sums of the runs before."""
        return sums if runs > 1 else []

    def _clear(self) -> Stmt:
        def row(i: Any) -> Stmt:
            zero = tirx.const(0, "float32")
            return vector_loop(
                self.nest.values.padded,
                self.nest.lanes,
                lambda x: tirx.BufferStore(self.held, zero, [self.sum(i, x)]),
            )

        return loop_over("row", self.length, row)

    def _store(self, row: Any, share: Var) -> Stmt:
        """The results of a row."""
        nest = self.nest
        window = nest.attention.result.window
        start = matrix_start(window, self.matrix)

        def one(x: Any) -> Stmt:
            value = tirx.BufferLoad(self.held, [self.sum(row, x)]) * tirx.BufferLoad(share, [row])
            place = start + element_offset(window, self.first + row, x)
            stored = cast(value, nest.group.writes[0].dtype)
            return tirx.BufferStore(nest.around.writes[0], stored, [place])

        return vector_loop(nest.values.columns, nest.lanes, one)


def _scaled(value: Any, factor: float) -> Any:
    return value if factor == 1 else multiply(value, tirx.const(factor, "float32"))


def fill_lanes(target: Var, value: float, lanes: int) -> Stmt:
    """Set every lane of a vector to a number."""
    one = tirx.const(value, "float32")
    return store_vector(target, 0, tirx.Broadcast(one, lanes) if lanes > 1 else one, lanes)


def _across(target: Var, lanes: int, combine: Callable[[Any, Any], Any]) -> list[Stmt]:
    """Combine all lanes of a vector in its first."""
    parts: list[Stmt] = []
    while lanes > 1:
        lanes //= 2
        pair = vector_at(target, 0, lanes), vector_at(target, lanes, lanes)
        parts.append(store_vector(target, 0, combine(*pair), lanes))
    return parts
