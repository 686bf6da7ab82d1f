"""Conversion of a plain schedule back to a `taskflow.graph`."""

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from compiler.errors import ScheduleError
from compiler.ir.taskflow import (
    ArenaOp,
    GraphOp,
    LaunchOp,
    SubflowOp,
    TaskOp,
    ViewOp,
    WeightOp,
    set_after,
)
from compiler.ir.types import memref_type
from compiler.schedule import Allocation, Schedule, Task, View


def unflattened(schedule: Schedule, like: GraphOp) -> GraphOp:
    """The synchronized graph of a schedule of the same model as `like`, which has its weights.

    Raises ScheduleError for inputs, outputs or weights that are not the model's.
    """
    memory = _Memory(schedule, like)
    costs = {op.kernel.data: op.cost for op in like.launches}
    units: list[TaskOp] = []
    last: list[TaskOp] = []
    for places in schedule.subflows:
        tasks = [schedule.tasks[index] for index in places]
        launches = [_launch(task, memory, costs) for task in tasks]
        stream = tasks[0].stream
        alone = tasks[0].subflow is None
        unit = launches[0] if alone else SubflowOp(stream, Region(Block(launches)))
        set_after(unit, [last[awaited].token for awaited in tasks[0].after])
        units.append(unit)
        last += [unit] * len(tasks)
    memory.block.add_ops(units)
    inputs, outputs = ([n.data for n in names] for names in (like.input_names, like.output_names))
    graph = GraphOp(like.sym_name.data, inputs, outputs, Region(memory.block))
    graph.unsynchronized = None
    return graph


def _launch(task: Task, memory: "_Memory", costs: Mapping[str, IntegerAttr | None]) -> LaunchOp:
    cost = costs.get(task.kernel)
    return LaunchOp(
        task.kernel,
        task.stream,
        [memory.view(view) for view in task.reads],
        [memory.view(view) for view in task.writes],
        task.nodes,
        None if cost is None else cost.value.data,
    )


class _Memory:
    """The buffers of a schedule; a view is added at its first use."""

    def __init__(self, schedule: Schedule, like: GraphOp):
        edge = [a for a in schedule.allocations if a.kind in ("input", "output")]
        self.block = Block(arg_types=[memref_type(a.dtype, a.shape) for a in edge])
        expected = [argument.type for argument in like.body.block.args]
        names = [name.data for name in (*like.input_names, *like.output_names)]
        if [a.name for a in edge] != names or [v.type for v in self.block.args] != expected:
            raise ScheduleError("the schedule's inputs and outputs are not those of the model")
        self._weights = {
            op.allocation_name: op for op in like.body.block.ops if isinstance(op, WeightOp)
        }
        arguments = iter(self.block.args)
        self._roots = [
            next(arguments) if a.kind in ("input", "output") else self._allocate(a)
            for a in schedule.allocations
        ]
        self._views: dict[View, SSAValue] = {}

    def _add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def _allocate(self, allocation: Allocation) -> SSAValue:
        type = memref_type(allocation.dtype, allocation.shape)
        if allocation.kind == "arena":
            return self._add(ArenaOp(type))
        weight = self._weights.get(allocation.name)
        if weight is None or weight.result.type != type:
            raise ScheduleError(
                f"the model has no weight '{allocation.name}' of this type and shape"
            )
        return self._add(weight.clone())

    def view(self, view: View) -> SSAValue:
        """The buffer of a view."""
        if view not in self._views:
            root, type = self._roots[view.allocation], memref_type(view.dtype, view.shape)
            whole = view.offset == 0 and root.type == type
            self._views[view] = root if whole else self._add(ViewOp(root, view.offset, type))
        return self._views[view]
