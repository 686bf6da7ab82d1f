"""`plan-memory`: tensors that are never in use at once share bytes of the arena."""

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.errors import PipelineError
from compiler.ir.flatten import schedule_of
from compiler.ir.taskflow import ControlTaskOp, GraphOp, graphs_inside_out
from compiler.ir.taskflow_memory import ArenaOp, ViewOp
from compiler.ir.types import int64, memref_type
from compiler.passes.base import SchedulePass
from compiler.verify.happens_before import HappensBefore
from compiler.verify.memory import ArenaPlan, plan_arena


@dataclass(frozen=True)
class PlanMemory(SchedulePass):
    """Pack the arena; bytes are reused only where the tokens already order all uses.

    Requires a synchronised `taskflow.graph`, best after elide-sync; adds no token, so concurrency
    stays as it is. Ensures that no two tensors share bytes unless every use of one happens before
    every use of the other. The arena keeps its size without reuse as `bytes_without_reuse`.

    Before:
        %arena = taskflow.arena : memref<192xui8>
        %c = taskflow.view %arena[128] : memref<192xui8> -> memref<16xf32>
    After:
        %arena = taskflow.arena {bytes_without_reuse = 192 : i64} : memref<128xui8>
        %c = taskflow.view %arena[0] : memref<128xui8> -> memref<16xf32>
    """

    name = "plan-memory"

    reuse: Literal["none", "concurrent"] = "concurrent"
    """`none` keeps every tensor apart; `concurrent` shares bytes and adds no waiting."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Pack the arenas of every `taskflow.graph`, inner ones first; raises PipelineError."""
        if self.reuse == "none":
            return
        for graph in graphs_inside_out(op):
            if graph.unsynchronized is not None:
                raise PipelineError("the graph has no tokens yet: run insert-sync first")
            _plan(graph)
            if isinstance(around := graph.parent_op(), ControlTaskOp):
                # its last workspace becomes as large as the largest arena of its bodies
                size = around.arena_bytes
                workspace = around.operands[-1].owner
                if size and isinstance(workspace, ViewOp):
                    view = ViewOp(
                        workspace.source, workspace.offset.value.data, memref_type("uint8", (size,))
                    )
                    Rewriter.insert_op(view, InsertPoint.before(workspace))
                    around.operands[len(around.operands) - 1] = view.result


def _plan(graph: GraphOp) -> None:
    schedule = schedule_of(graph)
    order = HappensBefore(schedule)
    arenas = [op for op in graph.body.block.ops if isinstance(op, ArenaOp)]
    numbers = [i for i, allocation in enumerate(schedule.allocations) if allocation.kind == "arena"]
    for arena, number in zip(arenas, numbers, strict=True):
        _replace(arena, plan_arena(schedule, number, order))


def _replace(arena: ArenaOp, plan: ArenaPlan) -> None:
    views = [use.operation for use in arena.result.uses]
    packed = ArenaOp(memref_type("uint8", (plan.size,)))
    bytes_without_reuse = arena.attributes.get("bytes_without_reuse", int64(plan.before))
    packed.attributes = {**arena.attributes, "bytes_without_reuse": bytes_without_reuse}
    Rewriter.replace_op(arena, packed)
    for view in views:
        if isinstance(view, ViewOp):
            if view.result.uses.get_length():
                view.offset = int64(plan.move(view.offset.value.data))
            else:
                Rewriter.erase_op(view)
