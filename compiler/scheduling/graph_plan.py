"""Everything about running a schedule that can be decided before a device is touched."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler.schedule import KernelSpec, Schedule, Task
from compiler.scheduling.dependencies import (
    critical_first,
    durations,
    is_crowded,
    predecessors,
    priorities,
    upward_ranks,
)
from compiler.target.devices import DeviceModel


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule's edges, insertion order and priorities, and which tasks touch which buffer.

    `readers` holds, for each input, the tasks that a copy into it must precede; `writers`, for
    each output, the tasks that a copy out of it must follow; the edges imply all others. `sinks`
    are the tasks that nothing follows. In a `crowded` one many kernels run beside each other.
    """

    schedule: Schedule
    before: list[tuple[int, ...]]
    order: list[int]
    priorities: list[int]
    readers: dict[int, tuple[int, ...]]
    writers: dict[int, tuple[int, ...]]
    sinks: tuple[int, ...]
    crowded: bool


def plan(
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    measured: Mapping[str, float],
    device: DeviceModel,
    limits: tuple[int, int],
) -> Plan:
    """Plan a schedule; `device` is for kernels not measured, `limits` are its priorities."""
    before = predecessors(schedule)
    times = durations(schedule, kernels, measured, device)
    order = critical_first(upward_ranks(before, times))
    urgency = priorities(before, times, limits)
    inputs, outputs = _users(schedule, "input"), _users(schedule, "output")
    after = _successors(before)
    return Plan(
        schedule,
        before,
        order,
        urgency,
        {index: _first(users, before) for index, users in inputs.items()},
        {index: _last(users, after) for index, users in outputs.items()},
        tuple(task for task, later in enumerate(after) if not later),
        is_crowded(before, times),
    )


def _users(schedule: Schedule, kind: str) -> dict[int, list[int]]:
    """The tasks that touch each allocation of one kind."""
    users: dict[int, list[int]] = {
        index: [] for index, a in enumerate(schedule.allocations) if a.kind == kind
    }
    for index, task in enumerate(schedule.tasks):
        for allocation in _touched(task) & users.keys():
            users[allocation].append(index)
    return users


def _touched(task: Task) -> set[int]:
    return {view.allocation for view in task.reads + task.writes}


def _successors(before: Sequence[Sequence[int]]) -> list[list[int]]:
    after: list[list[int]] = [[] for _ in before]
    for task, others in enumerate(before):
        for other in others:
            after[other].append(task)
    return after


def _first(users: list[int], before: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The users that no other user precedes."""
    later = _closure(users, before, range(len(before)))
    return tuple(user for user in users if user not in later)


def _last(users: list[int], after: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The users that no other user follows."""
    earlier = _closure(users, after, reversed(range(len(after))))
    return tuple(user for user in users if user not in earlier)


def _closure(users: list[int], edges: Sequence[Sequence[int]], order: Iterable[int]) -> set[int]:
    """Every node that an edge path joins to a user, other than by being one."""
    marked = set(users)
    reached: set[int] = set()
    for node in order:
        if any(other in marked or other in reached for other in edges[node]):
            reached.add(node)
    return reached
