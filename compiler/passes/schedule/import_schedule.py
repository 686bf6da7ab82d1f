"""`import-schedule`: take a schedule from a file in place of the one that the passes made."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from compiler.errors import PipelineError, ScheduleError
from compiler.ir.flatten import schedule_of
from compiler.ir.taskflow import GraphOp
from compiler.ir.unflatten import unflattened
from compiler.passes.base import SchedulePass
from compiler.support.caches import read_regular
from compiler.verify.equivalence import check_equivalent
from compiler.verify.happens_before import check_schedule
from compiler.verify.schedule_json import from_json


@dataclass(frozen=True)
class ImportSchedule(SchedulePass):
    """Replace the schedule by that of a `schedule.json`, taken as it is: nothing is repaired.

    Requires a synchronised `taskflow.graph` of the same model and kernels, so this comes last.
    Ensures the file's tasks, streams, tokens and memory; raises ScheduleError that names the race,
    or the task that no longer reads what it should.

    Before:
        taskflow.launch "B" stream 0 reads %a : memref<4xf32> writes %b : memref<4xf32>
    After, where the file has stream 1 and the token:
        taskflow.launch "B" stream 1 after %0 reads %a : memref<4xf32> writes %b : memref<4xf32>
    """

    name = "import-schedule"

    file: str
    """A `schedule.json`, such as an artifact has."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Replace the module's `taskflow.graph`."""
        try:
            text = read_regular(self.file).decode()
        except (OSError, ValueError) as error:  # NUL, or what is not UTF-8
            reason = error.strerror if isinstance(error, OSError) else error
            raise ScheduleError(f"cannot read {self.file}: {reason}") from None
        imported = from_json(text)
        for graph in [graph for graph in op.ops if isinstance(graph, GraphOp)]:
            if graph.unsynchronized is not None:
                raise PipelineError("there is no schedule to compare with: run insert-sync first")
            check_schedule(imported)
            # It executes in launch order, which says something of schedules without races only.
            check_equivalent(imported, schedule_of(graph))
            Rewriter.replace_op(graph, unflattened(imported, graph), new_results=[])
