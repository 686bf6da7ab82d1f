"""Results whose elements along the last axis take different branches, as those of a stack do: the
threads of a warp would take them all, one after another."""

from typing import Any

from tvm.ir import Call
from tvm.s_tir.schedule import LoopRV, SBlockRV

from compiler.kernels.gpu.untyped import UntypedSchedule, tvm_ffi
from compiler.kernels.sizes import at_hint, extent_from, is_long
from compiler.kernels.tir.access import loop_extent, variables_in

MANY_BRANCHES, FEW_ELEMENTS = 8, 8
"""From so many branches on, each of up to so many elements, threads walk along the other axes."""


def without_divergence(
    schedule: UntypedSchedule, block: SBlockRV, loops: list[LoopRV]
) -> list[LoopRV]:
    """The loops of an elementwise block, the last one first where its elements branch."""
    extents = [loop_extent(schedule, loop) for loop in loops]
    long = [i for i, extent in enumerate(extents) if is_long(extent)]
    if len(long) < 2 or not _branches(schedule, block, at_hint(extents[long[-1]])):
        return loops
    last = loops[long[-1]]
    order = [last, *loops[: long[-1]], *loops[long[-1] + 1 :]]
    schedule.reorder(*order)
    return order


def _branches(schedule: UntypedSchedule, block: SBlockRV, extent: int) -> bool:
    """Whether the place along the last axis decides between many branches."""
    node = schedule.get(block)
    axis = [v.var for v in node.iter_vars if is_long(extent_from(v.dom.extent))][-1]
    conditions: list[Any] = []

    def visit(call: Call) -> None:
        if getattr(call.op, "name", "") == "prim.if_then_else":
            used = variables_in(call.args[0])
            conditions.extend([call] * (len(used) > 0 and all(v.same_as(axis) for v in used)))

    tvm_ffi.structural_walk(node.body, (Call, visit), order="pre")
    branches = len(conditions) + 1
    return branches >= MANY_BRANCHES and extent <= FEW_ELEMENTS * branches
