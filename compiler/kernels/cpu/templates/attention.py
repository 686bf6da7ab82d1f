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
from dataclasses import dataclass, replace
from math import lcm, prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.graph.attention import Attention
from compiler.graph.windows import StridedOperand
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.core import Core, core_of
from compiler.kernels.cpu.machine import second_cache_bytes
from compiler.kernels.cpu.templates.anchors import AnchorTemplate, Loops, Ways
from compiler.kernels.cpu.templates.panels import Panels, element_offset, matrix_start
from compiler.kernels.cpu.tiling import (
    Tile,
    matmul_tiles,
    split_blocks,
)
from compiler.kernels.group import Group, Node
from compiler.kernels.long_sums import run_of
from compiler.kernels.ops.common import cast, multiply
from compiler.kernels.ops.mathematics import call
from compiler.kernels.tir.attention import attention_of, score_context, scores_at
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import (
    RegisterTile,
    block_loops,
    buffer,
    element_at,
    lane_loop,
    loop_over,
    run_length,
    scratch,
    sequence,
    store_vector,
    vector_at,
    vector_loop,
)
from compiler.target.target import CpuTarget
from compiler.tensors.dtypes import NARROW_FLOATS

SCORES_SHARE = 4
"""The part of the second-level cache that a band's scores fill: K and V stream through it."""

BAND_ROWS = 64
"""The most rows of a band, where more gain nothing."""

SOFTMAX_ROW_SLOTS = 30
"""Slots of beginning and ending the loops over a row's scores."""

SCORE_SLOTS = 24
"""Slots of a vector of scores from Q K^T to the weights."""


class FusedAttention(AnchorTemplate[None]):
    """A group that is exactly one attention."""

    name = "attention"
    types = ("Softmax",)

    def read(self, group: Group, anchor: Node, target: CpuTarget) -> Ways[None] | None:
        """The likeliest tiles."""
        attention = attention_of(group)
        if attention is None or not attention.is_plain(group):
            return None
        nest = attention_nest(group, attention, core_of(target), second_cache_bytes(target))
        return Ways(
            around=nest.around,
            flops=2 * attention.sizes.multiplications,
            slots={None: prod(attention.batch) * nest.slots},
            loops=lambda _: Loops(nest.launches),
        )


def attention_nest(
    group: Group, attention: Attention, core: Core, cache_bytes: int
) -> "AttentionNest":
    """The nest of an attention with the tiles and the band that are likely fast."""
    (rows, depth), (keys, width) = (o.window.shape[-2:] for o in (attention.query, attention.value))
    beside_scores = replace(core, near_bytes=core.near_bytes // 2)
    first, slots = matmul_tiles(rows, keys, depth, beside_scores, True)[0]
    most = min(BAND_ROWS, cache_bytes // SCORES_SHARE // (keys * 4))
    most = max(most, first.rows)
    second, more = next(
        (tile, cost)
        for tile, cost in matmul_tiles(rows, width, keys, core, True)
        if rows <= most or lcm(first.rows, tile.rows) <= most
    )
    step = lcm(first.rows, second.rows)
    around = score_context(group, attention)
    around.writes = [buffer("result", group.writes[0].elements, group.writes[0].dtype)]
    softmax = rows * (SOFTMAX_ROW_SLOTS + SCORE_SLOTS * ceil_div(keys, core.lanes))
    return AttentionNest(
        group=group,
        attention=attention,
        around=around,
        tiles=(first, second),
        lanes=core.lanes,
        near_bytes=core.near_bytes,
        band=rows if rows <= most else most // step * step,
        slots=slots + more + softmax,
    )


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
        blocks = split_blocks(self.slots * extents[0], *extents)
        held = buffer("held", prod(blocks) * self.scratch_elements)
        runs = [ceil_div(extent, count) for extent, count in zip(extents, blocks, strict=True)]

        def body(firsts: list[Any], lengths: list[Any]) -> Stmt:
            own = (firsts[0] // runs[0] * blocks[1] + firsts[1] // runs[1]) * self.scratch_elements

            def matrix(unit: Any) -> Stmt:
                def band(number: Any) -> Stmt:
                    place = Band(self, firsts[0] + unit, firsts[1] + number, own, held)
                    return place.compute(keys, values)

                return loop_over("band", lengths[1], band)

            return loop_over("matrix", lengths[0], matrix)

        return [tirx.AllocBuffer(held), block_loops(blocks, extents, body)]


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
        softmax = loop_over("row", self.length, lambda i: self._softmax(i, share))
        store = loop_over("row", self.length, lambda i: self._store(i, share))
        scores = [*self._convert(), self._scores(keys)]
        return sequence([allocate, *scores, softmax, *self._sums(values), store])

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

        def compute(panel: Any, first: Any, rows: int) -> Stmt:
            registers = RegisterTile(rows, tile.vectors, nest.lanes)

            def step(k: Any) -> Stmt:
                line = panels.line(self.matrix, panel, k)

                def scalar(i: int) -> Any:
                    if nest.converted_depth:
                        return tirx.BufferLoad(self.held, [self.query(first + i, k)])
                    return self._query(self.first + first + i, k)

                return registers.step(
                    scalar,
                    lambda j: vector_at(keys, line + j * nest.lanes, nest.lanes),
                )

            def place(i: int, j: int) -> Any:
                return self.score(first + i, panel * panels.width + j * nest.lanes)

            return registers.sum_up("k", nest.depth, step, self.held, place)

        def panel(number: Any) -> Stmt:
            return self._tiles(tile.rows, lambda first, rows: compute(number, first, rows))

        return loop_over("panel", panels.count, panel)

    def _tiles(self, rows: int, body: Callable[[Any, int], Stmt]) -> Stmt:
        """A loop over tiles of rows, the last perhaps of fewer; `body` gets its first and count."""
        total = self.nest.rows
        rest = total % rows

        def one(number: Any) -> Stmt:
            first = number * rows
            if total < rows:
                return body(first, rest)
            if not rest:
                return body(first, rows)
            whole = self.first + first + rows <= total
            return tirx.IfThenElse(whole, body(first, rows), body(first, rest))

        length = self.length
        tiles = ceil_div(length, rows) if isinstance(length, int) else (length + rows - 1) // rows
        return loop_over("tile", tiles, one)

    def _softmax(self, row: Any, share: Var) -> Stmt:
        """The weights of a row but for their sum, whose inverse becomes the row's share."""
        nest, count = self.nest, self.nest.keys.columns
        attention = nest.attention
        factor = attention.query.factor * attention.key.factor
        at = [*scores_at(nest.group, attention, self.matrix), self.first + row]
        scores = nest.group.operators[attention.softmax].operand(0)
        largest, hold = scratch("largest", nest.lanes)
        totals, keep = scratch("totals", nest.lanes)
        top, once = scratch("top", 1)

        def score(lane: Any, key: Any) -> Stmt:
            place = [self.score(row, key)]
            value = _scaled(tirx.BufferLoad(self.held, place), factor)
            value = nest.around.element(scores, [*at, key], value)
            more = tirx.max(tirx.BufferLoad(largest, [lane]), tirx.BufferLoad(self.held, place))
            return sequence(
                [
                    tirx.BufferStore(self.held, value, place),
                    tirx.BufferStore(largest, more, [lane]),
                ]
            )

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

        total = tirx.BufferLoad(totals, [0])
        return sequence(
            [
                *(hold, keep, once),
                _filled(largest, float("-inf"), nest.lanes),
                _for_vectors(count, nest.lanes, score),
                *_across(largest, nest.lanes, tirx.max),
                tirx.BufferStore(top, tirx.BufferLoad(largest, [0]), [0]),
                *self._total(totals, count, weight),
                *_across(totals, nest.lanes, lambda a, b: a + b),
                tirx.BufferStore(
                    share, tirx.const(attention.value.factor, "float32") / total, [row]
                ),
            ]
        )

    def _total(self, totals: Var, keys: int, add: Callable[[Any, Any], Stmt]) -> list[Stmt]:
        """The sums of the keys of each lane; `add` gets a lane and a key. Long ones are in runs."""
        lanes = self.nest.lanes
        run = run_of(ceil_div(keys, lanes)) * lanes
        if run >= keys:
            return [_filled(totals, 0.0, lanes), _for_vectors(keys, lanes, add)]
        whole, allocate = scratch("whole", lanes)

        def one(first: Any, length: int) -> Stmt:
            both = vector_at(whole, 0, lanes) + vector_at(totals, 0, lanes)
            return sequence(
                [
                    _filled(totals, 0.0, lanes),
                    _for_vectors(length, lanes, lambda lane, key: add(lane, first + key)),
                    store_vector(whole, 0, both, lanes),
                ]
            )

        runs, rest = divmod(keys, run)
        parts = [allocate, _filled(whole, 0.0, lanes)]
        parts.append(loop_over("run", runs, lambda number: one(number * run, run)))
        parts += [one(runs * run, rest)] if rest else []
        return [*parts, store_vector(totals, 0, vector_at(whole, 0, lanes), lanes)]

    def _sums(self, values: Var) -> list[Stmt]:
        """The weights times V, some keys at a time, whose lines of a panel fit the first cache."""
        nest, panels, tile = self.nest, self.nest.values, self.nest.tiles[1]
        run = max(1, nest.near_bytes // (panels.width * 4))
        runs = ceil_div(panels.lines, run)
        run = ceil_div(panels.lines, runs)

        def compute(number: Any, panel: Any, first: Any, rows: int) -> Stmt:
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
            added = registers.add(self.held, place) if runs > 1 else []
            kept = registers.store(self.held, place)
            return sequence([*registers.start(), loop_over("k", length, step), *added, kept])

        def keys(number: Any) -> Stmt:
            def panel(p: Any) -> Stmt:
                return self._tiles(tile.rows, lambda first, rows: compute(number, p, first, rows))

            return loop_over("panel", panels.count, panel)

        products = loop_over("run", runs, keys)
        return [self._clear(), products] if runs > 1 else [products]

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


def _for_vectors(extent: int, lanes: int, body: Callable[[Any, Any], Stmt]) -> Stmt:
    """A loop over vectors; `body` gets an element's lane and number."""
    whole, rest = divmod(extent, lanes)
    parts: list[Stmt] = []
    if whole:
        parts.append(
            loop_over(
                "step",
                whole,
                lambda s: lane_loop(lanes, lambda lane: body(lane, s * lanes + lane)),
            )
        )
    if rest:
        parts.append(lane_loop(rest, lambda lane: body(lane, whole * lanes + lane)))
    return sequence(parts)


def _filled(target: Var, value: float, lanes: int) -> Stmt:
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
