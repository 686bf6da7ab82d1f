"""`insert-sync`: a token for every pair of tasks that touch the same bytes."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.ir.flatten import schedule_of
from compiler.ir.taskflow import graphs_inside_out, set_after
from compiler.passes.base import SchedulePass
from compiler.schedule.symbolic import at_example_sizes
from compiler.scheduling.subflows import waits_between
from compiler.verify.conflicts import needed_waits


@dataclass(frozen=True)
class InsertSync(SchedulePass):
    """Make every task wait for those before it that touch the same bytes, unless both only read.

    Requires a `taskflow.graph`; tokens that it has, such as those between stages, are kept. Ensures
    a synchronised graph with a token for each data edge, anti-dependency and output dependency,
    even along one stream.

    Before:
        taskflow.launch "A" stream 0 writes %a : memref<4xf32>
        taskflow.launch "B" stream 1 reads %a : memref<4xf32> writes %y : memref<4xf32>
    After:
        %0 = taskflow.launch "A" stream 0 writes %a : memref<4xf32>
        %1 = taskflow.launch "B" stream 1 after %0 reads %a : ... writes %y : memref<4xf32>
    """

    name = "insert-sync"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Synchronise every `taskflow.graph` of the module, those of bodies too."""
        for graph in graphs_inside_out(op):
            # Offsets that sizes decide have no order; how tensors overlap, they have.
            schedule = at_example_sizes(schedule_of(graph))
            tasks = list(graph.tasks)
            waits = zip(needed_waits(schedule), schedule.tasks, strict=True)
            all_waits = ((*needed, *task.after) for needed, task in waits)
            for task, awaited in zip(
                tasks, waits_between(schedule.subflows, all_waits), strict=True
            ):
                if awaited:
                    # All of them, to be easy to check: `elide-sync` drops the implied ones.
                    set_after(task, [tasks[earlier].token for earlier in sorted(awaited)])
            graph.unsynchronized = None
