"""The schedule that fits every group: what can be inlined is, each root nest gets a grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, te
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import IntImm

from compiler.kernels.group import Group
from compiler.kernels.lowering import Emitter
from compiler.kernels.scheduled import Scheduled
from compiler.kernels.target import CpuTarget

BLOCK_WORK = 1 << 15
"""Inner iterations that one block of the grid should have, about 10 to 100 us."""

MAX_BLOCKS = 256
"""Most blocks of one launch."""


def schedule_generic(group: Group, target: CpuTarget) -> Scheduled:
    """Lower a group and schedule it without knowing what it computes."""
    emitter = Emitter(group)
    results = emitter.lower_all()
    function = te.create_prim_func([*emitter.placeholders, *distinct(results, emitter)])
    schedule = s_tir.Schedule(function)
    schedule_blocks(schedule)
    return Scheduled(schedule.mod["main"])


def distinct(results: Sequence[te.Tensor], emitter: Emitter) -> list[te.Tensor]:
    """Results as tensors of their own: one that is an input or given twice is copied."""
    taken = list(emitter.placeholders)
    tensors: list[te.Tensor] = []
    for tensor in results:
        if any(tensor.same_as(other) for other in taken):
            tensor = te.compute(tensor.shape, lambda *i, t=tensor: t(*i), name="copy")
        taken.append(tensor)
        tensors.append(tensor)
    return tensors


@dataclass(frozen=True)
class BlockFacts:
    """What the schedule needs to know of a block."""

    spatial: int
    reduction: bool
    output: bool


def facts(schedule: s_tir.Schedule, block: SBlockRV) -> BlockFacts:
    """Read a block's iteration kinds, and whether it writes a result."""
    node = schedule.get(block)
    kinds = [int(v.iter_type) for v in node.iter_vars]
    params = list(schedule.mod["main"].params)
    output = any(region.source.same_as(p) for region in node.writes for p in params)
    return BlockFacts(kinds.count(0), 2 in kinds, output)


def schedule_blocks(schedule: s_tir.Schedule) -> None:
    """Inline what can be, then give each remaining root block its loops."""
    for block in root_blocks(schedule):
        known = facts(schedule, block)
        if not known.reduction and not known.output:
            schedule.compute_inline(block)
    for block in root_blocks(schedule):
        loops = schedule.get_loops(block)
        spatial = loops[: facts(schedule, block).spatial]
        if spatial:
            grid(schedule, spatial[:-1] or spatial, work=BLOCK_WORK)


def root_blocks(schedule: s_tir.Schedule) -> list[SBlockRV]:
    """The blocks under the root, in order."""
    return list(schedule.get_child_blocks(schedule.get_sblock("root")))


def extent_of(schedule: s_tir.Schedule, loop: LoopRV) -> int:
    """The constant extent of a loop."""
    extent = schedule.get(loop).extent
    assert isinstance(extent, IntImm)
    return int(extent)


def grid(schedule: s_tir.Schedule, loops: Sequence[LoopRV], work: int) -> LoopRV:
    """Fuse loops, split them into blocks and mark those; returns the loop inside a block."""
    fused = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    extent = extent_of(schedule, fused)
    blocks = min(extent, MAX_BLOCKS)
    while extent % blocks:
        blocks -= 1
    outer, inner = schedule.split(fused, [blocks, None])
    schedule.parallel(outer)
    return inner
