"""Tiles of GEMMs whose rows a run decides: many rows have tiles of more columns."""

from dataclasses import replace

from compiler.kernels.gpu.templates.gemm.config import (
    WGMMA_COLUMNS,
    WGMMA_STAGES,
    Tile,
    shared_bytes,
    stage_bytes,
    staged_bytes,
)
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.target.target import GpuTarget

TILES_OF_ROWS = 32
"""The most tiles of rows for which columns are chosen."""

STATIC_BYTES = 4096
"""The static shared memory of the code of all tiles."""


def wider_tiles(problem: Problem, tile: Tile, target: GpuTarget) -> list[tuple[int, Tile]]:
    """Tiles of more columns, and the rows above which each is faster, the fewest rows first.

    They have the threads and the cluster of a tile and take no more shared memory, so that one
    kernel has all of them: two at most, as each is compiled. There are none of tiles without WGMMA,
    or with prefetch or release.
    """
    if problem.rows is None or not tile.wgmma or tile.overlaps or tile.co_resident:
        return []
    if shared_bytes(problem, tile, target) + STATIC_BYTES > target.shared_bytes:
        return []
    alternatives = [tile]
    for columns in (2 * tile.columns, 4 * tile.columns):
        wider = replace(tile, columns=columns, warp_columns=columns)
        stages = staged_bytes(problem, tile) // stage_bytes(problem, wider)
        if columns in WGMMA_COLUMNS and stages >= WGMMA_STAGES[0]:
            alternatives.append(replace(wider, stages=min(stages, tile.stages)))
    chosen: list[tuple[int, Tile]] = []
    for count in range(1, TILES_OF_ROWS + 1):
        example = replace(problem, m=count * tile.rows)
        best = min(alternatives, key=lambda own: estimate(example, own, target))
        if best.columns > (chosen[-1][1] if chosen else tile).columns:
            chosen.append((example.m - tile.rows, best))
    return chosen
