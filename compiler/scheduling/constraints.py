"""A user's constraints on a schedule, task by task; the rest is left to the policies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

from compiler.errors import ScheduleError
from compiler.support.dag import reverse, topological_order


@dataclass(frozen=True)
class Constraints:
    """Tasks are named by any of their ONNX nodes.

    `streams` pins tasks; `after` makes the key wait for the others; each chain of `order` is
    launched in this order; the two tasks of each pair of `apart` never overlap.
    """

    streams: Mapping[str, int]
    after: Mapping[str, Sequence[str]]
    order: Sequence[Sequence[str]] = ()
    apart: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Tasks:
    """The tasks of a schedule in launch order: nodes, streams, and which each must wait for."""

    nodes: Sequence[Sequence[str]]
    streams: Sequence[int]
    waits: Sequence[Iterable[int]]


@dataclass(frozen=True)
class Constrained:
    """A new launch order of tasks, and by task its stream and the waits that were asked for."""

    order: list[int]
    streams: list[int]
    after: list[set[int]]


def constrain(tasks: Tasks, constraints: Constraints) -> Constrained:
    """Apply constraints: tasks stay in their order as far as these allow, in O(n log n + e).

    Raises ScheduleError for a name that no task has, and for constraints that contradict each
    other or the data, with the tasks that then wait for each other.
    """
    names = _Names(tasks)
    streams = list(tasks.streams)
    pinned: dict[int, str] = {}
    for name, stream in constraints.streams.items():
        task = names.find(name)
        if task in pinned and streams[task] != stream:
            raise ScheduleError(
                f"'{name}' and '{pinned[task]}' are one task, which cannot be on streams"
                f" {stream} and {streams[task]}"
            )
        pinned[task], streams[task] = name, stream
    after: list[set[int]] = [set() for _ in streams]
    for name, others in constraints.after.items():
        after[names.find(name)].update(names.pair(name, other)[1] for other in others)
    before = [{*data, *more} for data, more in zip(tasks.waits, after, strict=True)]
    for chain in constraints.order:
        for first, second in pairwise(chain):
            earlier, later = names.pair(first, second)
            before[later].add(earlier)
    order = _order(before, names)
    place = {task: index for index, task in enumerate(order)}
    for one, other in constraints.apart:
        earlier, later = sorted(names.pair(one, other), key=place.__getitem__)
        after[later].add(earlier)
    return Constrained(order, streams, after)


class _Names:
    """Finds tasks by their nodes' names."""

    def __init__(self, tasks: Tasks):
        self._nodes = tasks.nodes
        self._task_of = {name: i for i, nodes in enumerate(tasks.nodes) for name in nodes}

    def find(self, name: str) -> int:
        """The task of a node."""
        if name not in self._task_of:
            near = get_close_matches(name, self._task_of, 3)
            hint = f"; near it are {', '.join(map(repr, near))}" if near else ""
            raise ScheduleError(f"no task of the schedule holds a node named {name!r}{hint}")
        return self._task_of[name]

    def pair(self, one: str, other: str) -> tuple[int, int]:
        """The tasks of two nodes, which must not be the same."""
        first, second = self.find(one), self.find(other)
        if first == second:
            raise ScheduleError(f"'{one}' and '{other}' are in one task: they cannot be ordered")
        return first, second

    def describe(self, task: int) -> str:
        """A task by its first node."""
        return repr(self._nodes[task][0]) if self._nodes[task] else f"task {task}"


def _order(before: Sequence[set[int]], names: _Names) -> list[int]:
    """The topological order that keeps the present one wherever the edges allow it."""
    predecessors = [sorted(others) for others in before]
    order = topological_order(predecessors, reverse(predecessors), lambda task: task)
    if len(order) < len(before):
        # Tasks that wait for each other, each before the one that waits for it.
        done = set(order)
        task = next(t for t in range(len(before)) if t not in done)
        path: list[int] = []
        while task not in path:
            path.append(task)
            task = min(before[task] - done)
        cycle = " -> ".join(map(names.describe, [*path[path.index(task) :], task][::-1]))
        raise ScheduleError(
            f"the constraints contradict each other or the data: {cycle} wait in a cycle"
        )
    return order
