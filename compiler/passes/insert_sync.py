"""`insert-sync`: a token for every pair of tasks that touch the same bytes."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from compiler.analysis.synchronisation import needed_waits
from compiler.ir.flatten import schedule_of, units_of
from compiler.ir.taskflow import GraphOp, TaskOp, set_after


@dataclass(frozen=True)
class InsertSync(ModulePass):
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
    waits: list[set[int]] = [set() for _ in units]
    unit_of = units_of(graph)
    for task, needed in enumerate(needed_waits(schedule_of(graph))):
        waits[unit_of[task]].update(unit_of[earlier] for earlier in needed)
    number: dict[SSAValue, int] = {unit.token: index for index, unit in enumerate(units)}
    for index, unit in enumerate(units):
        waits[index].update(number[token] for token in unit.after)
        _wait_for(unit, [units[earlier] for earlier in sorted(waits[index] - {index})])
    graph.unsynchronized = None


def _wait_for(task: TaskOp, awaited: list[TaskOp]) -> None:
    if awaited or task.after:
        set_after(task, [each.token for each in awaited])
