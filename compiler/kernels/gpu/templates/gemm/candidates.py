"""The tiles of a GEMM, those worth measuring, and those that an estimate may choose."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import log

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.gemm.config import (
    CO_RESIDENT,
    STAGES,
    WGMMA_SHAPES,
    WGMMA_STAGES,
    Tile,
    block_count,
    can_use_halo,
    can_use_wgmma,
    fills_splits,
    halo_bytes,
    prefetch_bytes,
    resident_blocks,
    shared_bytes,
    shared_room,
    stage_bytes,
)
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.target.target import GpuTarget

SHAPES = (
    (16, 64, 16, 16),
    (16, 128, 16, 32),
    (32, 32, 16, 16),
    (32, 64, 16, 32),
    (64, 32, 32, 16),
    (32, 128, 32, 32),
    (64, 64, 32, 32),
    (64, 64, 32, 16),
    (64, 128, 32, 32),
    (64, 128, 32, 64),
    (128, 64, 32, 32),
    (128, 64, 64, 32),
    (128, 128, 64, 32),
    (128, 128, 32, 64),
)
"""Rows and columns of a block's tile and of each of its four or eight warps'."""

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)

SLOWEST = 1.6
"""Tiles whose estimate is more than this many times the least are not worth measuring: of 1,099
problems measured on an H200, the fastest tile's was more in 20."""


def is_modelled(tile: Tile) -> bool:
    """Whether an estimate alone may choose a tile: estimates were fitted to its kind.

    Halos and overlap with other kernels pay for few problems: only measurements of a problem or of
    similar ones choose these.
    """
    return not (tile.overlaps or tile.halo)


def candidates(problem: Problem, target: GpuTarget) -> Iterator[Tile]:
    """The tiles that fit the device and leave each split-K slice at least one step.

    Only clusters add the slices of bytes, whose sums are integers.
    """
    for shape in SHAPES:
        for split_k in SPLITS:
            tile = Tile(*shape, split_k)
            added = problem.element_bytes > 1 or tile.launches(target) == 1
            if not added or not fills_splits(problem, tile):
                continue
            if _has_room(problem, tile, target):
                yield replace(tile, stages=_stages(problem, tile, target))
            halo = replace(tile, halo=True)
            if can_use_halo(problem, halo, target) and _has_room(problem, halo, target):
                yield replace(halo, stages=_stages(problem, halo, target))
    for (rows, columns), split_k in product(WGMMA_SHAPES, SPLITS):
        tile = Tile(
            rows=rows,
            columns=columns,
            warp_rows=16,
            warp_columns=columns,
            split_k=split_k,
            stages=WGMMA_STAGES[0],
            wgmma=True,
        )
        steps = ceil_div(ceil_div(problem.k, problem.step), split_k)
        if problem.m < rows or steps < 2 or not can_use_wgmma(problem, tile, target):
            continue
        room = shared_room(problem, target) - shared_bytes(problem, tile, target)
        if room >= 0:
            stages = tile.stages + room // stage_bytes(problem, tile)
            yield replace(tile, stages=min(_useful_stages(problem, tile), stages))
        few = replace(tile, stages=CO_RESIDENT)
        if resident_blocks(problem, few, target) > 1:
            yield few


def _has_room(problem: Problem, tile: Tile, target: GpuTarget) -> bool:
    """Whether the fewest stages fit shared memory."""
    return shared_bytes(problem, tile, target) <= shared_room(problem, target)


def has_wgmma_room(problem: Problem, tile: Tile, target: GpuTarget) -> bool:
    """Whether a problem can have a WGMMA tile with as many stages as it says."""
    able = CO_RESIDENT <= tile.stages <= WGMMA_STAGES[1] and can_use_wgmma(problem, tile, target)
    return able and _has_room(problem, tile, target)


def _useful_stages(problem: Problem, tile: Tile) -> int:
    """The stages that the k-steps of a WGMMA tile can use."""
    fewest, most = WGMMA_STAGES
    return max(fewest, min(most, ceil_div(ceil_div(problem.k, problem.step), tile.split_k) + 2))


def _stages(problem: Problem, tile: Tile, target: GpuTarget) -> int:
    """As many stages as k-steps can use without fewer resident blocks."""
    fewest, most = STAGES
    taken = target.shared_bytes - shared_room(problem, target)
    room = target.shared_bytes // resident_blocks(problem, tile, target) - taken
    room -= prefetch_bytes(problem, tile, target) + halo_bytes(problem, tile)
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.split_k)
    most = min(most, problem.gather.taps + 1) if tile.halo else most
    return max(fewest, min(most, steps + 1, room // stage_bytes(problem, tile)))


def diverse(problem: Problem, target: GpuTarget, count: int) -> list[Tile]:
    """At most `count` tiles to measure, the one of the least estimate first.

    Of each shape come the tile of the least estimate, those that make about one and two waves of
    blocks, and the others: estimates alone miss the best of some problems by far. Kinds of tiles
    that no estimate is fitted to come last, halos after others, ranked among themselves. None
    overlaps with other kernels: the gain shows only between these.
    """
    times = {tile: estimate(problem, tile, target) for tile in candidates(problem, target)}
    kinds = {tile: (not is_modelled(tile), tile.halo) for tile in times}
    least = dict[tuple[bool, bool], float]()
    shapes = dict[tuple[int, ...], list[Tile]]()
    for tile in sorted(times, key=lambda tile: (kinds[tile], times[tile])):
        if times[tile] <= SLOWEST * least.setdefault(kinds[tile], times[tile]):
            shapes.setdefault(tile.shape, []).append(tile)
    ranked = [_by_waves(problem, tiles, target) for tiles in shapes.values()]
    in_turn = [tiles[i] for i in range(len(SPLITS)) for tiles in ranked if i < len(tiles)]
    return in_turn[:count]


def _by_waves(problem: Problem, tiles: list[Tile], target: GpuTarget) -> list[Tile]:
    """Tiles of one shape: the first, those nearest to one and two waves of blocks, the rest."""

    def off(tile: Tile, waves: int) -> float:
        return abs(log(block_count(problem, tile) / (waves * target.device.sms)))

    near = [min(tiles, key=lambda tile, waves=waves: off(tile, waves)) for waves in (1, 2)]
    return list(dict.fromkeys([tiles[0], *near, *tiles]))
