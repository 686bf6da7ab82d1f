"""`apply-constraints`: streams, order and waits that a user asks for in a file."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import PipelineError, ScheduleError
from compiler.ir.flatten import schedule_of
from compiler.ir.taskflow import GraphOp, set_after
from compiler.ir.types import int64
from compiler.passes.base import SchedulePass
from compiler.schedule.symbolic import at_example_sizes
from compiler.scheduling.constraints import Constraints, Tasks, constrain
from compiler.scheduling.constraints_json import constraints_from_json
from compiler.scheduling.subflows import waits_between
from compiler.support.caches import read_regular
from compiler.verify.conflicts import needed_waits


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
        constraints = constraints_from_json(_read(self.file))
        for graph in op.ops:
            if isinstance(graph, GraphOp):
                if graph.unsynchronized is None:
                    raise PipelineError("the schedule has its tokens: run this before insert-sync")
                _constrain(graph, constraints)


def _read(file: str) -> str:
    try:
        return read_regular(file).decode()
    except (OSError, ValueError) as error:  # NUL, or what is not UTF-8
        reason = error.strerror if isinstance(error, OSError) else error
        raise ScheduleError(f"cannot read {file}: {reason}") from None


def _constrain(graph: GraphOp, constraints: Constraints) -> None:
    tasks = list(graph.tasks)
    constrained = constrain(_tasks(graph), constraints)
    for task, stream, waits in zip(tasks, constrained.streams, constrained.after, strict=True):
        for operation in (task, *task.launches):
            operation.stream = int64(stream)
        tokens = dict.fromkeys([*task.after, *(tasks[awaited].token for awaited in sorted(waits))])
        set_after(task, list(tokens))
    for index in constrained.order:
        tasks[index].detach()
        graph.body.block.add_op(tasks[index])


def _tasks(graph: GraphOp) -> Tasks:
    """The graph's launches and subflows as plain data."""
    schedule = at_example_sizes(schedule_of(graph))
    groups = schedule.subflows
    nodes = [[node for i in places for node in schedule.tasks[i].nodes] for places in groups]
    waits = zip(needed_waits(schedule), schedule.tasks, strict=True)
    all_waits = ((*needed, *task.after) for needed, task in waits)
    streams = [schedule.tasks[places.start].stream for places in groups]
    return Tasks(nodes, streams, waits_between(groups, all_waits))
