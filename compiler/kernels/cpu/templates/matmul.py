"""Matrix multiplications of float32: the tiles to choose from."""

from dataclasses import dataclass, replace
from math import prod

from compiler.graph.precision import MEMORY_BOUND_ROWS
from compiler.kernels.cpu.core import Core, core_of
from compiler.kernels.cpu.machine import second_cache_bytes
from compiler.kernels.cpu.templates.anchors import (
    CPU_SOURCES,
    AnchorTemplate,
    Loops,
    Ways,
    elementwise_context,
    widening,
)
from compiler.kernels.cpu.templates.matmul_nest import MatmulNest
from compiler.kernels.cpu.tiling import (
    BLOCK_SLOTS,
    PricedTile,
    Tile,
    matmul_tiles,
    near,
    sampled,
    shareable_tiles,
    streamed_slots,
)
from compiler.kernels.group import Group, Node
from compiler.kernels.sizes import is_number
from compiler.kernels.template import Key
from compiler.kernels.tir.matmul import Matmul, read_matmul
from compiler.target.target import CpuTarget

MOST_TILES = 16
"""The most tiles to choose from."""

ROW_SAMPLES = 8
"""The numbers of rows for which a tile of rows over a symbol is judged."""


@dataclass(frozen=True, slots=True)
class MatmulConfig:
    """The register tile of a matmul."""

    rows: int
    vectors: int


class FloatMatmul(AnchorTemplate[MatmulConfig]):
    """A group around one float32 MatMul or Gemm."""

    name = "matmul"
    sources = CPU_SOURCES
    types = ("MatMul", "Gemm")
    takes_symbols = True

    def read(self, group: Group, anchor: Node[int], target: CpuTarget) -> Ways[MatmulConfig] | None:
        """Register tiles."""
        problem = read_matmul(group, anchor)
        around = elementwise_context(group, anchor) if problem else None
        if problem is None or around is None:
            return None
        core = core_of(target)
        right = group.packable(anchor.operand(1))
        packed = right is not None and problem.shared
        shorts = around.is_converted(1)
        example = problem.example
        narrow = shorts and example.rows <= MEMORY_BOUND_ROWS
        while not packed and is_number(problem.columns) and core.lanes > problem.columns:
            core = replace(core, lanes=core.lanes // 2)
        tiles = _tiles(problem, core, packed)
        right_bytes = example.columns * example.depth * (2 if narrow else 4)
        streamed = streamed_slots(example.rows, right_bytes) if packed else 0
        if streamed >= 2 * BLOCK_SLOTS:
            tiles = shareable_tiles(tiles, example.columns, core)
        slots = {MatmulConfig(t.rows, t.vectors): slots for t, slots in tiles[:MOST_TILES]}

        def loops(config: MatmulConfig) -> Loops:
            nest = MatmulNest(
                problem=problem,
                around=around,
                tile=Tile(config.rows, config.vectors),
                lanes=core.lanes,
                packed=packed,
                slots=max(streamed, slots[config]),
                cache=second_cache_bytes(target),
                narrow=narrow,
            )
            if right is None or not packed:
                return Loops(nest.launches)
            wide = "" if narrow else widening(group, right)
            return Loops(nest.launches, {right: wide + nest.packing})

        batch = prod(example.batch)
        key: Key = {
            "batch": batch,
            "rows": example.rows,
            "columns": example.columns,
            "depth": example.depth,
            "transposed": tuple(map(int, problem.transposed)),
            "packed": packed,
            "computed": tuple(int(around.read_number(i) is None) for i in range(2)),
        }
        if shorts:
            key["narrow"] = narrow
        total = {config: batch * own for config, own in slots.items()}
        flops = 2 * example.multiplications
        return Ways(around=around, flops=flops, slots=total, loops=loops, key=key)


def _tiles(problem: Matmul, core: Core, packed: bool) -> list[PricedTile]:
    """The tiles of a matmul with their slots a batch, the fastest first."""
    example = problem.example
    sizes = example.columns, example.depth, core, packed
    tiles = matmul_tiles(example.rows, *sizes)
    if is_number(problem.rows):
        return tiles
    samples = (matmul_tiles(near(example.rows, i), *sizes) for i in range(ROW_SAMPLES))
    return sampled(tiles, samples)
