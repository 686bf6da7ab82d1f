"""`insert-sync`: a token for every pair of tasks that touch the same bytes."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.ir.flatten import schedule_of, units_of
from compiler.ir.taskflow import GraphOp, set_after
from compiler.passes.base import SchedulePass
from compiler.verify.sync import needed_waits


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
        """Synchronise every `taskflow.graph` of the module."""
        for graph in op.ops:
            if isinstance(graph, GraphOp):
                _synchronise(graph)


def _synchronise(graph: GraphOp) -> None:
    units = list(graph.tasks)
    tokens = [unit.results[0] for unit in units]
    schedule, unit_of = schedule_of(graph), units_of(graph)
    waits: list[set[int]] = [set() for _ in units]
    for unit, task, needed in zip(unit_of, schedule.tasks, needed_waits(schedule), strict=True):
        waits[unit].update([unit_of[earlier] for earlier in (*needed, *task.after)])
    for index, awaited in enumerate(waits):
        awaited.discard(index)
        if awaited:
            set_after(units[index], [tokens[earlier] for earlier in sorted(awaited)])
    graph.unsynchronized = None
