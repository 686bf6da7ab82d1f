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
        pinned[task] = name
        streams[task] = stream
    waits: list[set[int]] = [set() for _ in streams]
    for name, awaited in constraints.after.items():
        waits[names.find(name)].update(names.pair(name, node)[1] for node in awaited)
    predecessors = [{*data, *asked} for data, asked in zip(tasks.waits, waits, strict=True)]
    for chain in constraints.order:
        for first, second in pairwise(chain):
            earlier, later = names.pair(first, second)
            predecessors[later].add(earlier)
    order = _order(predecessors, names)
    position = {task: index for index, task in enumerate(order)}
    # A pair may run in either order: that of the launches adds no cycle.
    for first, second in constraints.apart:
        earlier, later = sorted(names.pair(first, second), key=position.__getitem__)
        waits[later].add(earlier)
    return Constrained(order, streams, waits)


class _Names:
    """Finds tasks by their nodes' names."""

    def __init__(self, tasks: Tasks):
        self._nodes = tasks.nodes
        self._task_of = {name: i for i, nodes in enumerate(tasks.nodes) for name in nodes}

    def find(self, name: str) -> int:
        """The task of a node."""
        if name not in self._task_of:
            similar = get_close_matches(name, self._task_of, 3)
            hint = f"; near it are {', '.join(map(repr, similar))}" if similar else ""
            raise ScheduleError(f"no task of the schedule holds a node named {name!r}{hint}")
        return self._task_of[name]

    def pair(self, first_node: str, second_node: str) -> tuple[int, int]:
        """The tasks of two nodes, which must not be the same."""
        first, second = self.find(first_node), self.find(second_node)
        if first == second:
            raise ScheduleError(
                f"'{first_node}' and '{second_node}' are in one task: they cannot be ordered"
            )
        return first, second

    def describe(self, task: int) -> str:
        """A task by its first node."""
        return repr(self._nodes[task][0]) if self._nodes[task] else f"task {task}"


def _order(waits: Sequence[set[int]], names: _Names) -> list[int]:
    """The topological order that keeps the present one wherever the edges allow it."""
    predecessors = [sorted(tasks) for tasks in waits]
    order = topological_order(predecessors, reverse(predecessors), lambda task: task)
    if len(order) < len(waits):
        # Tasks that wait for each other, each before the one that waits for it.
        ordered = set(order)
        task = next(t for t in range(len(waits)) if t not in ordered)
        path: list[int] = []
        while task not in path:
            path.append(task)
            task = min(waits[task] - ordered)
        cycle = " -> ".join(map(names.describe, [*path[path.index(task) :], task][::-1]))
        raise ScheduleError(
            f"the constraints contradict each other or the data: {cycle} wait in a cycle"
        )
    return order
