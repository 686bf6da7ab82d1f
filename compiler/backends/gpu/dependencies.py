"""The order between tasks: edges of a graph, the critical path, and units of several tasks.

Pure functions on the plain schedule. A task precedes another if it is earlier on the same stream
or reached by tokens.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from compiler.schedule import KernelSpec, Schedule

LAUNCH_NS = 2000.0
"""What one launch costs at least, on the device."""


def stream_order(schedule: Schedule) -> list[int]:
    """The task before each one on its stream, or -1."""
    last: dict[int, int] = {}
    before: list[int] = []
    for index, task in enumerate(schedule.tasks):
        before.append(last.get(task.stream, -1))
        last[task.stream] = index
    return before


def predecessors(schedule: Schedule) -> list[tuple[int, ...]]:
    """The edges into each task: its tokens and its stream's order, without those others imply."""
    order = zip(schedule.tasks, stream_order(schedule), strict=True)
    return reduced([{*task.after, before} - {-1} for task, before in order])


def reduced(before: Sequence[Iterable[int]]) -> list[tuple[int, ...]]:
    """The transitive reduction of a graph whose edges all come from earlier nodes."""
    ancestors: list[int] = []
    result: list[tuple[int, ...]] = []
    for others in before:
        implied = 0
        for other in others:
            implied |= ancestors[other]
        result.append(tuple(sorted(other for other in others if not implied >> other & 1)))
        ancestors.append(implied | sum(1 << other for other in others))
    return result


def durations(
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    measured: Mapping[str, float],
    rates: tuple[float, float],
) -> list[float]:
    """Nanoseconds of each task: measured by kernel name, else from its work and the rates.

    `rates` are float operations and bytes per nanosecond.
    """
    flops, bandwidth = rates

    def of(name: str) -> float:
        kernel = kernels[name]
        work = max(kernel.flops / flops, kernel.traffic_bytes / bandwidth)
        return measured.get(name, LAUNCH_NS * len(kernel.launches) + work)

    return [max(1.0, of(task.kernel)) for task in schedule.tasks]


def upward_ranks(before: Sequence[Sequence[int]], times: Sequence[float]) -> list[float]:
    """The longest path from the start of each task to the end of the schedule."""
    ranks = list(times)
    for task in reversed(range(len(times))):
        for other in before[task]:
            ranks[other] = max(ranks[other], times[other] + ranks[task])
    return ranks


def critical_first(ranks: Sequence[float]) -> list[int]:
    """A topological order of the tasks that gives the longest remaining path first."""
    return sorted(range(len(ranks)), key=lambda task: (-ranks[task], task))


def priorities(
    before: Sequence[Sequence[int]], times: Sequence[float], limits: tuple[int, int]
) -> list[int]:
    """Each task's priority: the longer the longest path through it, the more urgent.

    `limits` are the least and the greatest priority. Tasks of the critical path get the greatest.
    """
    ranks = upward_ranks(before, times)
    start = [0.0] * len(times)
    for task, others in enumerate(before):
        start[task] = max((start[other] + times[other] for other in others), default=0.0)
    longest = max(ranks, default=1.0)
    least, greatest = limits
    share = [(start[task] + ranks[task]) / longest for task in range(len(times))]
    return [least + round((greatest - least) * part) for part in share]


@dataclass(slots=True)
class Unit:
    """Tasks of one sub-flow that follow each other on a stream and are dispatched together.

    `after` holds the units (indices) that it waits for, its stream's earlier unit included.
    """

    stream: int
    subflow: int
    tasks: list[int] = field(default_factory=list[int])
    after: set[int] = field(default_factory=set[int])


def units(schedule: Schedule) -> list[Unit]:
    """Group the tasks of each sub-flow, in an order in which the units can be dispatched.

    A sub-flow is split where keeping it whole would make two units wait for each other.
    """
    found: list[Unit] = []
    unit_of: list[int] = []
    newest: dict[int, int] = {}
    for index, task in enumerate(schedule.tasks):
        waits = {unit_of[other] for other in task.after}
        mine = newest.get(task.stream, -1)
        if not _may_join(found, mine, task.subflow, waits - {mine}):
            found.append(Unit(task.stream, task.subflow, after={mine} - {-1}))
            mine = newest[task.stream] = len(found) - 1
        found[mine].tasks.append(index)
        found[mine].after |= waits - {mine}
        unit_of.append(mine)
    return _in_dispatch_order(found)


def _may_join(found: list[Unit], mine: int, subflow: int, waits: set[int]) -> bool:
    """Whether a task can be added to the unit `mine` without a cycle between units."""
    if mine < 0 or subflow < 0 or found[mine].subflow != subflow:
        return False
    seen: set[int] = set()
    stack = list(waits)
    while stack:
        unit = stack.pop()
        if unit == mine:
            return False
        if unit not in seen:
            seen.add(unit)
            stack += found[unit].after
    return True


def _in_dispatch_order(found: list[Unit]) -> list[Unit]:
    """Sort units topologically and renumber what they wait for."""
    order: list[int] = []
    placed: set[int] = set()

    def place(unit: int) -> None:
        stack = [unit]
        while stack:
            top = stack[-1]
            missing = [other for other in sorted(found[top].after) if other not in placed]
            stack += missing
            if not missing:
                stack.pop()
                if top not in placed:
                    placed.add(top)
                    order.append(top)

    for unit in range(len(found)):
        place(unit)
    position = {unit: place for place, unit in enumerate(order)}
    return [
        Unit(u.stream, u.subflow, u.tasks, {position[other] for other in u.after})
        for u in (found[unit] for unit in order)
    ]
