"""Conversion of a plain schedule back to a `taskflow.graph`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from compiler.errors import ScheduleError
from compiler.ir.taskflow import AccessOp, GraphOp, LaunchOp, SubflowOp, TaskOp, set_after
from compiler.ir.taskflow_control import make_control
from compiler.ir.taskflow_memory import ArenaOp, ViewOp, WeightOp
from compiler.ir.types import memref_type
from compiler.schedule.tasks import Allocation, Schedule, Task, View


def unflattened(schedule: Schedule, like: GraphOp) -> GraphOp:
    """The synchronized graph of a schedule of the same model as `like`, which has its weights.

    Raises ScheduleError for inputs, outputs or weights that are not the model's.
    """
    costs = {op.kernel.data: op.cost for op in like.walk() if isinstance(op, LaunchOp)}
    weights = [op for op in like.body.block.ops if isinstance(op, WeightOp)]
    edge = [a for a in schedule.allocations if a.kind in ("input", "output")]
    names = [name.data for name in (*like.input_names, *like.output_names)]
    types = [memref_type(a.dtype, a.shape) for a in edge]
    if [a.name for a in edge] != names or types != [v.type for v in like.body.block.args]:
        raise ScheduleError("the schedule's inputs and outputs are not those of the model")
    graph = _graph(schedule, like.sym_name.data, _Facts(costs, weights))
    graph.unsynchronized = None
    return graph


@dataclass(frozen=True)
class _Facts:
    """The costs of a model's kernels, and its weights."""

    costs: Mapping[str, IntegerAttr | None]
    weights: Sequence[WeightOp]


def _graph(schedule: Schedule, name: str, facts: _Facts) -> GraphOp:
    memory = _Memory(schedule, facts.weights)
    units: list[TaskOp] = []
    last: list[TaskOp] = []
    for places in schedule.subflows:
        tasks = [schedule.tasks[index] for index in places]
        launches = [_launch(task, memory, facts) for task in tasks]
        stream = tasks[0].stream
        is_single = tasks[0].subflow is None
        unit = launches[0] if is_single else SubflowOp(stream, Region(Block(launches)))
        set_after(unit, [last[awaited].token for awaited in tasks[0].after])
        units.append(unit)
        # A token stands for all of a subflow, whichever of its tasks is awaited.
        last += [unit] * len(tasks)
    memory.block.add_ops(units)
    edges = [schedule.of_kind("input"), schedule.of_kind("output")]
    inputs, outputs = ([allocation.name for allocation in edge] for edge in edges)
    return GraphOp(name, inputs, outputs, Region(memory.block))


def _launch(task: Task, memory: "_Memory", facts: _Facts) -> AccessOp:
    cost = facts.costs.get(task.kernel)
    reads, writes = ([memory.view(view) for view in views] for views in (task.reads, task.writes))
    if task.control is not None:
        bodies = [_body(body, facts) for body in task.control.bodies]
        accesses = reads, writes
        return make_control(task.control.form, task.stream, accesses, bodies, task.nodes)
    ns = None if cost is None else cost.value.data
    return LaunchOp(task.kernel, task.stream, reads, writes, nodes=task.nodes, cost=ns)


def _body(schedule: Schedule, facts: _Facts) -> GraphOp:
    graph = _graph(schedule, schedule.name, facts)
    graph.unsynchronized = None
    return graph


class _Memory:
    """The buffers of a schedule; a view is added at its first use."""

    def __init__(self, schedule: Schedule, weights: Sequence[WeightOp]):
        edge = [a for a in schedule.allocations if a.kind in ("input", "output")]
        self.block = Block(arg_types=[memref_type(a.dtype, a.shape) for a in edge])
        self._weights = {op.allocation_name: op for op in weights}
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
            root = self._roots[view.allocation]
            type = memref_type(view.dtype, view.shape)
            is_root = view.offset == 0 and root.type == type
            self._views[view] = root if is_root else self._add(ViewOp(root, view.offset, type))
        return self._views[view]
