"""Conversion of a `taskflow.graph` to the plain schedule, with which the IR ends."""

from dataclasses import replace
from functools import cache

from xdsl.ir import Attribute, SSAValue

from compiler.errors import ScheduleError
from compiler.ir.taskflow import AccessOp, ControlTaskOp, GraphOp, LaunchOp, TaskOp
from compiler.ir.taskflow_memory import ArenaOp, ExtentsOp, ViewOp, WeightOp
from compiler.ir.types import dtype_of, shape_of
from compiler.schedule.tasks import Allocation, AllocationKind, Control, Schedule, Task, View


def schedule_of(graph: GraphOp) -> Schedule:
    """The schedule of a graph; a subflow's first task waits for its tokens.

    The last task of a subflow completes it. Allocations are the inputs, the outputs, then weights
    and arenas in block order. The schedule of an unsynchronized graph has races. Raises
    ScheduleError for an empty subflow.
    """
    allocations, buffers = _memory_of(graph)
    tasks: list[Task] = []
    last: dict[SSAValue, int] = {}
    for unit in graph.tasks:
        if isinstance(unit, AccessOp):
            tasks.append(_task(unit, last, None, buffers))
        else:
            tasks += _subflow(unit, last, len(tasks), buffers)
        last[unit.results[0]] = len(tasks) - 1
    return Schedule(graph.sym_name.data, tuple(allocations), tuple(tasks))


def _subflow(
    unit: TaskOp, last: dict[SSAValue, int], number: int, buffers: dict[SSAValue, View]
) -> list[Task]:
    tasks = [_task(launch, last, number, buffers) for launch in unit.launches]
    if not tasks:
        raise ScheduleError("a taskflow.subflow is empty: remove it, or put its launches inside")
    tasks[0] = replace(tasks[0], after=tuple([last[token] for token in unit.after]))
    return tasks


def _memory_of(graph: GraphOp) -> tuple[list[Allocation], dict[SSAValue, View]]:
    allocations: list[Allocation] = []
    buffers: dict[SSAValue, View] = {}

    def allocate(kind: AllocationKind, name: str, value: SSAValue) -> None:
        dtype, shape = _dtype_and_shape(value.type)
        buffers[value] = View(len(allocations), 0, dtype, shape)
        allocations.append(Allocation(kind, name, dtype, shape))

    names = [*graph.input_names, *graph.output_names]
    for index, (name, value) in enumerate(zip(names, graph.body.block.args, strict=True)):
        allocate("input" if index < len(graph.input_names) else "output", name.data, value)
    for op in graph.body.block.ops:
        if isinstance(op, ViewOp):
            source = buffers[op.operands[0]]
            result = op.results[0]
            shape = _dtype_and_shape(result.type)
            buffers[result] = View(source.allocation, op.offset.value.data, *shape)
        elif isinstance(op, WeightOp | ExtentsOp):
            allocate("weight", op.allocation_name, op.result)
        elif isinstance(op, ArenaOp):
            allocate("arena", "arena", op.result)
    return allocations, buffers


def extents_of(graph: GraphOp) -> dict[str, tuple[str, ...]]:
    """The symbols of the weights that hold their sizes, by allocation name."""
    ops = (op for op in graph.body.block.ops if isinstance(op, ExtentsOp))
    return {op.allocation_name: op.names for op in ops}


@cache
def _dtype_and_shape(type: Attribute) -> tuple[str, tuple[int, ...]]:
    return dtype_of(type), shape_of(type)


def _task(
    launch: AccessOp,
    last: dict[SSAValue, int],
    subflow: int | None,
    buffers: dict[SSAValue, View],
) -> Task:
    tokens, reads, writes = launch.parts
    nodes = launch.nodes or ()
    return Task(
        kernel=_kernel_of(launch),
        stream=launch.stream.value.data,
        after=tuple([last[token] for token in tokens]),
        reads=tuple([buffers[value] for value in reads]),
        writes=tuple([buffers[value] for value in writes]),
        subflow=subflow,
        nodes=tuple([node.data for node in nodes]),
        control=Control(launch.form, tuple(map(schedule_of, launch.graphs)))
        if isinstance(launch, ControlTaskOp)
        else None,
    )


def _kernel_of(launch: AccessOp) -> str:
    if isinstance(launch, LaunchOp):
        return launch.kernel.data
    assert isinstance(launch, ControlTaskOp)
    return launch.form.kind
