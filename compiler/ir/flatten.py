"""From a `taskflow.graph` to the plain schedule: the IR's only way out."""

from functools import cache

from xdsl.ir import Attribute, SSAValue

from compiler.errors import ScheduleError
from compiler.ir.taskflow import ArenaOp, GraphOp, LaunchOp, SubflowOp, TaskOp, ViewOp, WeightOp
from compiler.ir.types import dtype_of, shape_of
from compiler.schedule import Allocation, AllocationKind, Schedule, Task, View


def schedule_of(graph: GraphOp) -> Schedule:
    """The schedule of a graph; a subflow's tokens go to its first task, and are its last one's.

    Allocations are the inputs, the outputs, then weights and arenas in block order. An
    unsynchronized graph gives a schedule that lacks waits. Raises ScheduleError for an empty
    subflow.
    """
    allocations, buffers = _memory_of(graph)
    tasks: list[Task] = []
    last: dict[SSAValue, int] = {}
    for unit in graph.tasks:
        after = tuple(last[token] for token in unit.after)
        subflow = len(tasks) if isinstance(unit, SubflowOp) else -1
        for launch in _launches(unit):
            tasks.append(_task(launch, after, subflow, buffers))
            after = ()
        last[unit.token] = len(tasks) - 1
    return Schedule(graph.sym_name.data, tuple(allocations), tuple(tasks))


def units_of(graph: GraphOp) -> list[int]:
    """For each task of the graph's schedule, the position of its launch or subflow."""
    return [position for position, unit in enumerate(graph.tasks) for _ in unit.launches]


def _launches(unit: TaskOp) -> list[LaunchOp]:
    launches = list(unit.launches)
    if not launches:
        raise ScheduleError("a taskflow.subflow is empty: remove it, or put its launches inside")
    return launches


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
        if isinstance(op, WeightOp):
            allocate("weight", op.allocation_name, op.result)
        elif isinstance(op, ArenaOp):
            allocate("arena", "arena", op.result)
        elif isinstance(op, ViewOp):
            source = buffers[op.source]
            shape = _dtype_and_shape(op.result.type)
            buffers[op.result] = View(source.allocation, op.offset.value.data, *shape)
    return allocations, buffers


@cache
def _dtype_and_shape(type: Attribute) -> tuple[str, tuple[int, ...]]:
    return dtype_of(type), shape_of(type)


def _task(
    launch: LaunchOp, after: tuple[int, ...], subflow: int, buffers: dict[SSAValue, View]
) -> Task:
    nodes = launch.nodes or ()
    return Task(
        kernel=launch.kernel.data,
        stream=launch.stream.value.data,
        after=after,
        reads=tuple(buffers[value] for value in launch.reads),
        writes=tuple(buffers[value] for value in launch.writes),
        subflow=subflow,
        nodes=tuple(node.data for node in nodes),
    )
