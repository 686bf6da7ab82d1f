"""The order between tasks: edges of a graph, the critical path, and units of several tasks.

Pure functions on the plain schedule. A task precedes another if it is earlier on the same stream
or reached by tokens.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler.schedule import KernelSpec, Schedule
from compiler.scheduling.kernel_time import estimated_time
from compiler.target.devices import DeviceModel

CROWDED = 1.7
"""How often all tasks take as long as the longest path where many of them are beside each other."""


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
    device: DeviceModel,
) -> list[float]:
    """Nanoseconds of each task: measured by kernel name, else from its work."""

    def of(name: str) -> float:
        return measured[name] if name in measured else estimated_time(kernels[name], device)

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


def is_crowded(before: Sequence[Sequence[int]], times: Sequence[float]) -> bool:
    """Whether many tasks are beside each other: the longest path is a small part of their time."""
    return sum(times) > CROWDED * max(upward_ranks(before, times), default=0.0)


@dataclass(frozen=True, slots=True)
class Unit:
    """Tasks that are dispatched together on one stream; `after` holds earlier units' indices."""

    stream: int
    tasks: tuple[int, ...]
    after: tuple[int, ...]


def single_tasks(schedule: Schedule) -> list[Unit]:
    """Every task as a unit of its own, in launch order."""
    return _units(schedule, [(index,) for index in range(len(schedule.tasks))])


def subflows(schedule: Schedule) -> list[Unit]:
    """Every sub-flow as a unit, and every task outside one, in launch order.

    A sub-flow's tasks follow each other in launch order, so no two units wait for each other.
    """
    groups: list[tuple[int, ...]] = []
    for index, task in enumerate(schedule.tasks):
        last = schedule.tasks[index - 1] if index else None
        if (
            last
            and task.subflow >= 0
            and (last.subflow, last.stream) == (task.subflow, task.stream)
        ):
            groups[-1] += (index,)
        else:
            groups.append((index,))
    return _units(schedule, groups)


def _units(schedule: Schedule, groups: Sequence[tuple[int, ...]]) -> list[Unit]:
    unit_of = {task: unit for unit, tasks in enumerate(groups) for task in tasks}
    edges = predecessors(schedule)
    before = [
        {unit_of[other] for task in tasks for other in edges[task]} - {unit}
        for unit, tasks in enumerate(groups)
    ]
    streams = [schedule.tasks[tasks[0]].stream for tasks in groups]
    return [Unit(*parts) for parts in zip(streams, groups, reduced(before), strict=True)]
