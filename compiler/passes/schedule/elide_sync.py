"""`elide-sync`: drop the tokens that stream order and other tokens imply."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.ir.flatten import schedule_of
from compiler.ir.taskflow import graphs_inside_out, set_after
from compiler.passes.base import SchedulePass
from compiler.scheduling.subflows import remaining_waits, waits_between


@dataclass(frozen=True)
class ElideSync(SchedulePass):
    """Drop every token that stream order and the other tokens imply.

    Requires a synchronised `taskflow.graph`; leaves others alone. Ensures that the same tasks are
    ordered as before, and that no token can be dropped without losing an order.

    Before:
        %0 = taskflow.launch "A" stream 0 writes %a : memref<4xf32>
        %1 = taskflow.launch "B" stream 0 after %0 reads %a : ... writes %b : memref<4xf32>
        %2 = taskflow.launch "C" stream 1 after %0, %1 reads %a, %b : ... writes %c : ...
    After:
        %1 = taskflow.launch "B" stream 0 reads %a : ... writes %b : memref<4xf32>
        %2 = taskflow.launch "C" stream 1 after %1 reads %a, %b : ... writes %c : ...
    """

    name = "elide-sync"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Thin out the tokens of every synchronised `taskflow.graph` of the module."""
        for graph in graphs_inside_out(op):
            if graph.unsynchronized is None:
                schedule = schedule_of(graph)
                tasks = list(graph.tasks)
                remaining = waits_between(schedule.subflows, remaining_waits(schedule))
                for task, waits in zip(tasks, remaining, strict=True):
                    if len(waits) < len(task.after):
                        set_after(task, [tasks[awaited].token for awaited in sorted(waits)])
