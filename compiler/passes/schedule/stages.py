"""How stages become tokens."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from compiler.errors import PipelineError
from compiler.ir.dataflow import GroupOp
from compiler.ir.taskflow import TaskOp, set_after
from compiler.scheduling.units import stage_of


def order_stages(units: Sequence[Sequence[GroupOp]], tasks: Sequence[TaskOp]) -> None:
    """Let each stage's first task on each stream wait for the last tasks of all streams before.

    `units` are the groups of each task, in launch order; those without a stage wait for none.
    Raises PipelineError unless stages follow in turn.
    """
    last: dict[int, TaskOp] = {}
    awaited: list[SSAValue] = []
    stage, entered = -1, set[int]()
    for task, unit in zip(tasks, units, strict=True):
        own = [stage_of(group) for group in unit]
        if min(own) < stage or min(own) != max(own):
            raise PipelineError("stages are not in launch order: run assign-streams again")
        if own[0] > stage:
            stage, entered = own[0], set[int]()
            awaited = [each.token for each in last.values()]
        if stage >= 0 and task.stream.value.data not in entered:
            set_after(task, awaited)
        entered.add(task.stream.value.data)
        last[task.stream.value.data] = task
