"""Everything about running a schedule that can be decided before a device is touched."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.scheduling.kernel_time import estimated_time, task_time
from compiler.scheduling.subflows import predecessors
from compiler.support.dag import Adjacency, finish_times, reverse, upward_ranks
from compiler.target.devices import DeviceModel

CROWDED = 1.7
"""Above this ratio of all tasks' time to the critical path's, many kernels overlap."""


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """A schedule's edges, insertion order and priorities, and which tasks touch which buffer.

    `readers` holds, for each input, the tasks that a copy into it must precede; `writers`, for
    each output, the tasks that a copy out of it must follow; the edges imply all others. In a
    `crowded` schedule many kernels overlap.
    """

    schedule: Schedule
    before: list[tuple[int, ...]]
    order: list[int]
    priorities: list[int]
    readers: dict[int, tuple[int, ...]]
    writers: dict[int, tuple[int, ...]]
    crowded: bool


def plan_graph(
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    measured: Mapping[str, float],
    device: DeviceModel,
    limits: tuple[int, int],
) -> GraphPlan:
    """Plan a schedule; `device` is for kernels not measured, `limits` are its priorities."""
    incoming = predecessors(schedule)
    outgoing = reverse(incoming)
    times = durations(schedule, kernels, measured, device)
    ranks = upward_ranks(times, outgoing)
    inputs, outputs = _users(schedule, "input"), _users(schedule, "output")
    return GraphPlan(
        schedule=schedule,
        before=incoming,
        # HIP ignores nodes' priorities: its hardware queues follow the order of creation.
        order=critical_first(ranks),
        priorities=priorities(incoming, times, ranks, limits),
        readers={index: _first(users, incoming) for index, users in inputs.items()},
        writers={index: _last(users, outgoing) for index, users in outputs.items()},
        crowded=is_crowded(times, ranks),
    )


def durations(
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    measured: Mapping[str, float],
    device: DeviceModel,
) -> list[float]:
    """Nanoseconds of each task: measured by kernel name, else from its work."""

    def of(name: str) -> float:
        return measured[name] if name in measured else estimated_time(kernels[name], device)

    return [max(1.0, task_time(task, of)) for task in schedule.tasks]


def critical_first(ranks: Sequence[float]) -> list[int]:
    """A topological order of the tasks, by the longest remaining path."""
    return sorted(range(len(ranks)), key=lambda task: (-ranks[task], task))


def priorities(
    incoming: Adjacency, times: Sequence[float], ranks: Sequence[float], limits: tuple[int, int]
) -> list[int]:
    """Each task's priority: the longer the longest path through it, the more urgent.

    `ranks` are the longest paths from the tasks on; `limits` the least and the greatest priority.
    Tasks of the critical path get the greatest.
    """
    finish = finish_times(times, incoming)
    longest = max(ranks, default=1.0)
    starts = [max([finish[task] for task in awaited], default=0.0) for awaited in incoming]
    lowest, highest = limits
    shares = [(start + rank) / longest for start, rank in zip(starts, ranks, strict=True)]
    return [lowest + round((highest - lowest) * share) for share in shares]


def is_crowded(times: Sequence[float], ranks: Sequence[float]) -> bool:
    """Whether many tasks overlap: the critical path is a small part of their time."""
    return sum(times) > CROWDED * max(ranks, default=0.0)


def _users(schedule: Schedule, kind: str) -> dict[int, list[int]]:
    """The tasks that touch each allocation of one kind."""
    users: dict[int, list[int]] = {
        index: [] for index, a in enumerate(schedule.allocations) if a.kind == kind
    }
    for index, task in enumerate(schedule.tasks):
        for allocation in {view.allocation for view in task.reads + task.writes} & users.keys():
            users[allocation].append(index)
    return users


def _first(users: list[int], incoming: Adjacency) -> tuple[int, ...]:
    """The users that no other user precedes."""
    later = _closure(users, incoming, range(len(incoming)))
    return tuple(user for user in users if user not in later)


def _last(users: list[int], outgoing: Adjacency) -> tuple[int, ...]:
    """The users that no other user follows."""
    earlier = _closure(users, outgoing, reversed(range(len(outgoing))))
    return tuple(user for user in users if user not in earlier)


def _closure(users: list[int], edges: Adjacency, order: Iterable[int]) -> set[int]:
    """Every node that a path of at least one edge leads to from a user."""
    marked = set(users)
    reached: set[int] = set()
    for node in order:
        if any(neighbour in marked or neighbour in reached for neighbour in edges[node]):
            reached.add(node)
    return reached
