"""`apply-constraints`: streams, order and waits that a user asks for in a file."""

from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import PipelineError, ScheduleError
from compiler.ir.flatten import schedule_of, units_of
from compiler.ir.taskflow import GraphOp, TaskOp, set_after
from compiler.ir.types import int64
from compiler.passes.base import SchedulePass
from compiler.scheduling.constraints import Constraints, Tasks, constrain
from compiler.scheduling.constraints_json import constraints_from_json
from compiler.verify.sync import needed_waits


@dataclass(frozen=True)
class ApplyConstraints(SchedulePass):
    """Pin tasks to streams, fix launch orders and add waits, as a file of constraints says.

    Requires an unsynchronized `taskflow.graph`, so right after lower-to-taskflow; a partition is
    one task. Ensures the constraints, with the launch order otherwise as it was where the data
    allow; `insert-sync` keeps the tokens. docs/schedules.md describes the file.

    Before:
        %0 = taskflow.launch "A" stream 0 reads %x : ... writes %a : memref<4xf32> nodes ["a"]
        %1 = taskflow.launch "B" stream 0 reads %x : ... writes %b : memref<4xf32> nodes ["b"]
    After, with {"tasks": {"b": {"stream": 1, "after": ["a"]}}}:
        %0 = taskflow.launch "A" stream 0 reads %x : ... writes %a : memref<4xf32> nodes ["a"]
        %1 = taskflow.launch "B" stream 1 after %0 reads %x : ... nodes ["b"]
    """

    name = "apply-constraints"

    file: str
    """A JSON file of constraints."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Constrain the module's `taskflow.graph`."""
        wanted = constraints_from_json(_read(self.file))
        for graph in op.ops:
            if isinstance(graph, GraphOp):
                if graph.unsynchronized is None:
                    raise PipelineError("the schedule has its tokens: run this before insert-sync")
                _constrain(graph, wanted)


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScheduleError(f"cannot read {file}: {error}") from None


def _constrain(graph: GraphOp, wanted: Constraints) -> None:
    units = list(graph.tasks)
    found = constrain(_tasks(graph, units), wanted)
    for unit, stream, after in zip(units, found.streams, found.after, strict=True):
        for each in (unit, *unit.launches):
            each.stream = int64(stream)
        tokens = dict.fromkeys([*unit.after, *(units[other].token for other in sorted(after))])
        set_after(unit, list(tokens))
    for index in found.order:
        units[index].detach()
        graph.body.block.add_op(units[index])


def _tasks(graph: GraphOp, units: list[TaskOp]) -> Tasks:
    """The graph's tasks as plain data."""
    schedule, unit_of = schedule_of(graph), units_of(graph)
    nodes: list[list[str]] = [[] for _ in units]
    waits: list[set[int]] = [set() for _ in units]
    for index, (task, needed) in enumerate(
        zip(schedule.tasks, needed_waits(schedule), strict=True)
    ):
        nodes[unit_of[index]] += task.nodes
        waits[unit_of[index]].update(unit_of[other] for other in (*needed, *task.after))
    for index, others in enumerate(waits):
        others.discard(index)
    return Tasks(nodes, [unit.stream.value.data for unit in units], waits)
