"""Results that read a tensor along another axis, by tiles in shared memory: both sides of memory
are then walked along."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir import Var
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import IntImm

from compiler.kernels.gpu.untyped import UntypedSchedule
from compiler.kernels.sizes import at_hint, extent_from, is_long
from compiler.kernels.tir.access import axis_values

TILE, ROWS = 32, 8
"""The sides of a tile, and the rows that the threads of a block have at a time."""

MOST_READS = 5
"""Most tiles in shared memory, which are of 8 kB at most."""

SHORTEST = 16
"""Fewest elements along either side: memory moves sectors of 32 bytes."""


@dataclass(frozen=True)
class Tiles:
    """The axes of a block that its result and some of its reads walk along.

    `reads` are those reads, and for each which axis of the tensor the result walks along.
    """

    along: int
    across: int
    reads: tuple[tuple[int, int], ...]


def find_tiles(schedule: UntypedSchedule, block: SBlockRV) -> Tiles | None:
    """The transposed reads of an elementwise block; None without any that is long enough."""
    node = schedule.get(block)
    axes = {v.var: i for i, v in enumerate(node.iter_vars)}
    extents = [extent_from(v.dom.extent) for v in node.iter_vars]
    long = [i for i, extent in enumerate(extents) if is_long(extent)]
    tiles: Tiles | None = None
    for number, region in enumerate(node.reads):
        index = _plain_index(region, axes)
        if not long or index is None or long[-1] not in index:
            continue
        last = [axis for axis in index if axis in long][-1]
        sides = [at_hint(extents[axis]) for axis in (last, long[-1])]
        if last == long[-1] or min(sides) < SHORTEST:
            continue
        if tiles and (tiles.across != last or len(tiles.reads) == MOST_READS):
            continue
        reads = (*(tiles.reads if tiles else ()), (number, index.index(long[-1])))
        tiles = Tiles(long[-1], last, reads)
    return tiles


def _plain_index(region: Any, axes: dict[Any, int]) -> list[int | None] | None:
    """The axis that each index of a read is, None for a constant; None where one is neither."""
    index: list[int | None] = []
    for part in region.region:
        single = isinstance(part.extent, IntImm) and int(part.extent) == 1
        if not single or not isinstance(part.min, Var | IntImm):
            return None
        index.append(axes[part.min] if isinstance(part.min, Var) else None)
    plain = [axis for axis in index if axis is not None]
    return index if len(set(plain)) == len(plain) else None


def bind_tiles(schedule: UntypedSchedule, block: SBlockRV, tiles: Tiles) -> None:
    """Give each block of threads a tile of the result, and of each transposed read."""
    copies = [schedule.cache_read(block, number, "shared", [block]) for number, _ in tiles.reads]
    # The loop of each axis of a root block; None where an axis has none.
    nest = list(schedule.get_loops(block))
    values = axis_values(schedule, nest[-1])
    loops = [
        next((x for x in nest if schedule.get(x).loop_var.same_as(value)), None) for value in values
    ]
    along, across = loops[tiles.along], loops[tiles.across]
    others = [loop for loop in loops if loop not in (None, along, across)]
    outer_along, along = schedule.split(along, [None, TILE])
    outer_across, across = schedule.split(across, [None, TILE])
    schedule.reorder(*others, outer_along, outer_across, across, along)
    tile = schedule.fuse(*others, outer_along, outer_across)
    schedule.bind(tile, "blockIdx.x")
    for copy, (_, axis) in zip(copies, tiles.reads, strict=True):
        schedule.compute_at(copy, tile)
        _bind_tile(schedule, [schedule.fuse(*list(schedule.get_loops(copy))[1:])])
        schedule.storage_align(copy, 0, axis, TILE, 1)
    _bind_tile(schedule, [across, along])


def _bind_tile(schedule: UntypedSchedule, loops: Sequence[LoopRV]) -> None:
    _, row, column = schedule.split(schedule.fuse(*loops), [None, ROWS, TILE])
    schedule.bind(row, "threadIdx.y")
    schedule.bind(column, "threadIdx.x")
