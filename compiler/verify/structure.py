"""The invariants of a schedule whatever the order of its tasks: names, bounds, tokens, subflows."""

from collections import Counter
from math import prod

from compiler.errors import ScheduleError
from compiler.schedule.tasks import RESERVED_NAMES, Control, Schedule, View
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.verify.control import control_fault

MOST_STREAMS = 1 << 12
LARGEST_MEMORY = 1 << 62
"""The most streams, and the most bytes of one allocation: no machine has so many."""


def describe_task(schedule: Schedule, index: int) -> str:
    """The kernel, the ONNX nodes and the stream of a task, for a message."""
    task = schedule.tasks[index]
    nodes = f"nodes {', '.join(task.nodes)}; " if task.nodes else ""
    return f"'{task.kernel}' ({nodes}stream {task.stream})"


def describe_bytes(schedule: Schedule, allocation: int, begin: int, end: int) -> str:
    """A byte range of an allocation, for a message."""
    target = schedule.allocations[allocation]
    name = "the arena" if target.kind == "arena" else f"{target.kind} '{target.name}'"
    return f"bytes [{begin}, {end}) of {name}"


def check_structure(schedule: Schedule, depth: int = 0) -> None:
    """Raise ScheduleError for a name, view, token, subflow or body that no order makes valid.

    `depth` is the number of bodies around the schedule.
    """
    if not depth:
        _check_allocations(schedule)
    sizes = [allocation.nbytes for allocation in schedule.allocations]
    for index, task in enumerate(schedule.tasks):
        for view in (*task.reads, *task.writes):
            _check_view(schedule, index, view, sizes)
        for view in task.writes:
            if schedule.allocations[view.allocation].kind in ("input", "weight"):
                where = describe_bytes(
                    schedule, view.allocation, view.offset, view.offset + view.nbytes
                )
                _fail(schedule, index, f"writes {where}, which only callers may change")
        if not 0 <= task.stream < MOST_STREAMS:
            _fail(schedule, index, f"is on stream {task.stream}; there are {MOST_STREAMS} at most")
        for awaited in task.after:
            if not 0 <= awaited < index:
                _fail(schedule, index, f"waits for task {awaited}, which is not an earlier task")
        if task.control is not None:
            _check_bodies(schedule, index, task.control, depth + 1)
    _check_subflows(schedule)


def _check_allocations(schedule: Schedule) -> None:
    """Callers and stores find memory by its name, which is that of one allocation of its kind."""
    named = [(a.kind, a.name) for a in schedule.allocations if a.kind != "arena"]
    for (kind, name), count in Counter(named).items():
        if count > 1:
            raise ScheduleError(f"the schedule has {count} {kind}s of the name '{name}'")
    for allocation in schedule.allocations:
        if allocation.nbytes > LARGEST_MEMORY:
            raise ScheduleError(
                f"the {allocation.kind} '{allocation.name}' has {allocation.nbytes} bytes, more"
                " than there can be"
            )
        if allocation.name.startswith(RESERVED_NAMES) and allocation.kind == "output":
            if prod(allocation.shape) != 1:
                raise ScheduleError(f"the output '{allocation.name}' is not one number")


def _check_bodies(schedule: Schedule, index: int, control: Control, depth: int) -> None:
    if fault := control_fault(schedule.tasks[index], control, depth):
        _fail(schedule, index, fault)
    for body in control.bodies:
        check_structure(body, depth)


def _fail(schedule: Schedule, index: int, what: str) -> None:
    raise ScheduleError(f"task {index} {describe_task(schedule, index)} {what}")


def _check_view(schedule: Schedule, index: int, view: View, sizes: list[int]) -> None:
    if not 0 <= view.allocation < len(sizes):
        _fail(schedule, index, f"uses allocation {view.allocation}; there are {len(sizes)}")
    memory = schedule.allocations[view.allocation]
    if memory.kind != "arena" and view.dtype != memory.dtype:
        name = f"{memory.kind} '{memory.name}' of {memory.dtype}"
        _fail(schedule, index, f"uses the {name} as {view.dtype}")
    end = view.offset + view.nbytes
    if view.offset < 0 or end > sizes[view.allocation]:
        where = describe_bytes(schedule, view.allocation, view.offset, end)
        _fail(schedule, index, f"uses {where}, which has {sizes[view.allocation]}")
    if view.offset % ELEMENT_BYTES[view.dtype]:
        where = describe_bytes(schedule, view.allocation, view.offset, end)
        _fail(schedule, index, f"uses {where} as {view.dtype}, which is not aligned")


def _check_subflows(schedule: Schedule) -> None:
    """Tasks of a subflow follow each other on one stream and are ordered as one task."""
    tasks = schedule.tasks
    closed = set[int | None]()
    for index, task in enumerate(tasks):
        previous = tasks[index - 1].subflow if index else None
        if previous is not None and previous != task.subflow:
            closed.add(previous)
        if task.subflow in closed:
            _fail(schedule, index, f"is apart from the rest of its subflow {task.subflow}")
        if task.subflow is not None and task.subflow == previous:
            if task.stream != tasks[index - 1].stream:
                _fail(schedule, index, f"is on another stream than its subflow {task.subflow}")
            # A CUDA graph's child graph is one node: edges enter and leave it as a whole.
            if task.after:
                _fail(schedule, index, f"waits in the middle of its subflow {task.subflow}")
        for awaited in task.after:
            subflow = tasks[awaited].subflow
            if subflow is not None and tasks[awaited + 1].subflow == subflow:
                _fail(schedule, index, f"waits for task {awaited}, not the end of its subflow")
