"""Matmuls of few rows by packed weights of four bits: the nest of `matmul`, which unpacks them.

B is laid out in panels of columns beforehand, eight integers of a column to a word:

    [panels, blocks, words of a block, columns]       and so are scales and zero points

A register tile sums the matmuls of a block, which its scales multiply then; where the tile has
many rows, scales multiply the unpacked vectors instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import PrimType, Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.core import Core, core_of
from compiler.kernels.cpu.machine import vector_bytes
from compiler.kernels.cpu.nibbles import TABLE_LANES, nibble_floats
from compiler.kernels.cpu.templates.anchors import AnchorTemplate, Loops, Ways, elementwise_context
from compiler.kernels.cpu.templates.matmul_nest import MatmulNest, TileIndex
from compiler.kernels.cpu.templates.words import words_at
from compiler.kernels.cpu.tiling import MOST_ROWS, Tile
from compiler.kernels.group import Group, Node
from compiler.kernels.long_sums import run_of
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import RegisterTile, loop_over, scratch, sequence, vector_at
from compiler.kernels.tir.loops import vector_loop as row_loop
from compiler.kernels.tir.matmul import Matmul
from compiler.net.four_bits import FOUR_BIT_MIDDLE
from compiler.target.target import CpuTarget

WORD = 8
"""Integers of a word."""

UNPACKING_SLOTS = 3
"""Issue slots of unpacking one vector: shift, permutation or mask and conversion."""

MOST_VECTORS, ENOUGH_ROWS = 4, 3
"""Vectors of a tile of fewer rows than that, whose sums would wait for each other."""

FEW_ROWS = 4
"""Up to this many rows a tile sums each block apart: more sums would not fit the registers."""


class FourBitMatmul(AnchorTemplate[None]):
    """A group around a matmul of floats by constant weights of four bits."""

    name = "four_bit_matmul"
    types = ("MatMulNBits",)

    def read(self, group: Group, anchor: Node[int], target: CpuTarget) -> Ways[None] | None:
        """The tile of the number of rows."""
        operands = [i for i in anchor.inputs if i is not None]
        packable = all(group.is_packable(i) for i in operands[1:])
        numbers = [group.values[i] for i in (operands[0], *operands[2:], anchor.output)]
        plain = all(n.elements and n.dtype in ("float32", "uint8") for n in numbers)
        around = elementwise_context(group, anchor) if packable and plain else None
        if around is None:
            return None
        nest = four_bit_nest(around, group, anchor, target)
        loops = Loops(nest.launches, dict(zip(operands[1:], nest.packings, strict=False)))
        flops = 2 * nest.problem.multiplications
        return Ways(around=around, flops=flops, slots={None: nest.slots}, loops=lambda _: loops)


def four_bit_nest(
    around: FusionContext, group: Group, anchor: Node[int], target: CpuTarget
) -> "FourBitNest":
    """The nest of a matmul."""
    left = group.values[anchor.operand(0)].shape
    depth, size = anchor.attributes["K"], anchor.attributes["block_size"]
    problem = Matmul(left, (depth, around.shape[-1]), around.shape)
    core = core_of(target)
    tile = four_bit_tile(problem.rows, core)
    vectors = ceil_div(problem.columns, core.lanes) * ceil_div(problem.rows, tile.rows)
    return FourBitNest(
        problem=problem,
        around=around,
        tile=tile,
        lanes=core.lanes,
        packed=True,
        slots=vectors * depth * (tile.rows + UNPACKING_SLOTS),
        size=size,
        permutes=core.lanes == TABLE_LANES and vector_bytes(target) == 64,
    )


def four_bit_tile(rows: int, core: Core) -> Tile:
    """The tile of a number of rows: even ones, of one vector if they alone have enough sums."""
    height = ceil_div(rows, ceil_div(rows, MOST_ROWS))
    most = (core.registers - 4) // (2 * height + 3)
    return Tile(height, max(1, min(MOST_VECTORS, most)) if height < ENOUGH_ROWS else 1)


@dataclass(frozen=True, kw_only=True)
class FourBitNest(MatmulNest):
    """A matmul by weights in blocks of a `size`; `permutes` where AVX-512 unpacks them."""

    size: int
    permutes: bool

    @property
    def blocks(self) -> int:
        """Blocks of a column."""
        return ceil_div(self.problem.depth, self.size)

    @property
    def packings(self) -> tuple[str, str, str]:
        """The packings of weights, scales and zero points."""
        missing = self.panels * self.width - self.problem.columns
        pair = f"{self.panels},{self.width}"
        words = f"reshape:{pair},{self.blocks},{self.size // WORD},4|transpose:0,2,3,1,4"

        def lines(count: int) -> str:
            return f"pad:{missing},0|reshape:{pair},{count}|transpose:0,2,1"

        zeros = lines(self._zero_lines)
        zeros = f"nibbles|{zeros}" if self._zero_type == "uint8" else zeros
        return f"pad:{missing},0,0|{words}", lines(self.blocks), zeros

    @property
    def _zero_type(self) -> str:
        """The dtype of the zero points; empty without them."""
        tensor = self.around.operands[3] if len(self.around.operands) > 3 else None
        return "" if tensor is None else str(tensor.dtype)

    @property
    def _zero_lines(self) -> int:
        """Zero points of a column: packed ones are an even number."""
        return self.blocks + self.blocks % 2 if self._zero_type == "uint8" else self.blocks

    def launches(self) -> Stmt:
        """All launches: write A if it is computed, then multiply."""
        left, first = self._source(0, self.problem.left, False)
        return sequence([*first, self._multiply(left, self._read(1))])

    def _read(self, position: int) -> Var:
        number = self.around.read_number(position)
        assert number is not None
        return self.around.reads[number]

    def _tile(self, left: Var, right: Var, at: TileIndex, rows: int, columns: int) -> Stmt:
        vectors = ceil_div(columns, self.lanes)
        totals = RegisterTile(rows, vectors, self.lanes)
        first = at.tile * self.tile.rows
        sums, allocate = scratch("sums", rows * self.width)

        def block(number: Any, count: int) -> Stmt:
            return self._block(totals, (left, right), (at.panel, first), number, count)

        def place(i: int, j: int) -> Any:
            return i * self.width + j * self.lanes

        whole, rest = divmod(self.problem.depth, self.size)
        run = max(1, run_of(self.problem.depth) // self.size)
        parts = [allocate, *totals.start()]
        if run < whole:
            add = totals.add_runs("block", whole, run, lambda b: block(b, self.size), sums, place)
            parts += [totals.store(sums, place), add]
        elif whole:
            parts += [loop_over("block", whole, lambda b: block(b, self.size))]
        parts += [block(whole, rest)] if rest else []

        def row(i: Any) -> Stmt:
            def one(x: Any) -> Stmt:
                value = tirx.BufferLoad(sums, [i * self.width + x])
                return self._store(value, [], first + i, at.panel * self.width + x)

            return row_loop(columns, self.lanes, one)

        kept = totals.store(sums, place)
        return sequence([*parts, kept, loop_over("row", rows, row)])

    def _block(
        self,
        totals: RegisterTile,
        operands: tuple[Var, Var],
        place: tuple[Any, Any],
        block: Any,
        count: int,
    ) -> Stmt:
        """The sums of the first `count` integers of a block, scaled and added to the totals."""
        left, right = operands
        panel, first = place
        vectors = range(totals.vectors)
        scales = [self._bound(f"scale{j}", self._scale(panel, block, j)) for j in vectors]
        zeros = [
            self._bound(f"zero{j}", z) for j, z in enumerate(self._zeros(panel, block, vectors))
        ]
        apart = totals.rows <= FEW_ROWS
        sums = RegisterTile(totals.rows, totals.vectors, self.lanes) if apart else totals
        start = (panel * self.blocks + block) * (self.size // WORD)

        def number(j: int, words: Any, place: int) -> Any:
            value = self._unpacked(words, place, bool(zeros))
            value = value - zeros[j].var if zeros else value
            return value if apart else value * scales[j].var

        def word(at: Any, integers: int) -> Stmt:
            line = (start + at) * self.width
            loads = [words_at(right, line + j * self.lanes, self.lanes) for j in vectors]
            words = [self._bound(f"words{j}", load, "int32") for j, load in enumerate(loads)]
            k = block * self.size + at * WORD
            steps = [
                sums.step(
                    lambda i, p=p: self._scalar(left, self._element(0, first + i, k + p)),
                    lambda j, p=p: number(j, words[j].var, p),
                )
                for p in range(integers)
            ]
            return sequence([*words, *steps])

        whole, rest = divmod(count, WORD)
        loops = [loop_over("word", whole, lambda at: word(at, WORD))] if whole else []
        loops += [word(whole, rest)] if rest else []
        if not apart:
            return sequence([*scales, *zeros, *loops])
        return sequence([*zeros, *sums.start(), *loops, *scales, *self._add(totals, sums, scales)])

    def _add(self, totals: RegisterTile, sums: RegisterTile, scales: list[tirx.Bind]) -> list[Stmt]:
        """Scaled sums added to the totals."""
        parts: list[Stmt] = []
        for row, own in zip(totals.accumulators, sums.accumulators, strict=True):
            for total, sum, scale in zip(row, own, scales, strict=True):
                value = tirx.BufferLoad(sum, [0]) * scale.var
                parts.append(tirx.BufferStore(total, tirx.BufferLoad(total, [0]) + value, [0]))
        return parts

    def _bound(self, name: str, value: Any, dtype: str = "float32") -> tirx.Bind:
        kind = f"{dtype}x{self.lanes}" if self.lanes > 1 else dtype
        return tirx.Bind(Var(name, PrimType(kind)), value)

    def _scale(self, panel: Any, block: Any, j: int) -> Any:
        position = (panel * self.blocks + block) * self.width + j * self.lanes
        return vector_at(self._read(2), position, self.lanes)

    def _zeros(self, panel: Any, block: Any, vectors: range) -> list[Any]:
        """Vectors of zero points; none if there are no zero points."""
        if not self._zero_type:
            return []
        line = (panel * self._zero_lines + block) * self.width
        loads = [vector_at(self._read(3), line + j * self.lanes, self.lanes) for j in vectors]
        return [self._cast(load) for load in loads]

    def _cast(self, vector: Any) -> Any:
        kind = f"float32x{self.lanes}" if self.lanes > 1 else "float32"
        return tirx.Cast(kind, vector) if self._zero_type == "uint8" else vector

    def _unpacked(self, words: Any, place: int, whole: bool) -> Any:
        """The floats of one integer of each word, less the middle unless they are `whole`."""
        splat: Callable[[int, str], Any] = self._splat
        moved = words >> splat(4 * place, "int32") if place else words
        if self.permutes:
            return nibble_floats(moved, 0 if whole else FOUR_BIT_MIDDLE)
        kind = f"float32x{self.lanes}" if self.lanes > 1 else "float32"
        value = tirx.Cast(kind, moved & splat(15, "int32"))
        return value if whole else value - splat(FOUR_BIT_MIDDLE, "float32")

    def _splat(self, number: int, dtype: str) -> Any:
        scalar = tirx.const(number, dtype)
        return tirx.Broadcast(scalar, self.lanes) if self.lanes > 1 else scalar
