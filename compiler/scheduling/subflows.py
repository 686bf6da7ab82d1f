"""The order of a schedule's tasks as a graph, and the subflows that are launched as one.

A task follows those whose tokens it waits for and the one before it on its stream.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.errors import PipelineError
from compiler.schedule.tasks import Schedule
from compiler.support.dag import runs, without_implied


def stream_predecessors(schedule: Schedule) -> list[set[int]]:
    """The task before each one on its stream: a set of one, or none."""
    last: dict[int, int] = {}
    previous: list[set[int]] = []
    for index, task in enumerate(schedule.tasks):
        previous.append({last[task.stream]} if task.stream in last else set())
        last[task.stream] = index
    return previous


def predecessors(schedule: Schedule) -> list[tuple[int, ...]]:
    """The edges into each task, by tokens and stream order, without those that others imply."""
    order = zip(schedule.tasks, stream_predecessors(schedule), strict=True)
    return without_implied([list({*task.after, *previous}) for task, previous in order])


def remaining_waits(schedule: Schedule) -> list[tuple[int, ...]]:
    """For each task the fewest of its waits that, with stream order, order the same tasks."""
    order = zip(predecessors(schedule), stream_predecessors(schedule), strict=True)
    return [tuple([u for u in edges if u not in previous]) for edges, previous in order]


@dataclass(frozen=True, slots=True)
class Subflow:
    """Tasks that are launched together on one stream; `after` holds earlier subflows' indices."""

    stream: int
    tasks: tuple[int, ...]
    after: tuple[int, ...]


def single_tasks(schedule: Schedule) -> list[Subflow]:
    """Every task as a subflow with no other, in launch order."""
    return _with_edges(schedule, [(index,) for index in range(len(schedule.tasks))])


def subflows(schedule: Schedule) -> list[Subflow]:
    """The schedule's subflows and the tasks outside any, in launch order.

    A subflow's tasks follow each other in launch order, so no two subflows wait for each other.
    """
    return _with_edges(schedule, schedule.subflows)


def _with_edges(schedule: Schedule, groups: Sequence[Sequence[int]]) -> list[Subflow]:
    waits = waits_between(groups, predecessors(schedule))
    return [
        Subflow(schedule.tasks[tasks[0]].stream, tuple(tasks), awaited)
        for tasks, awaited in zip(groups, without_implied([*map(list, waits)]), strict=True)
    ]


def waits_between(
    groups: Sequence[Sequence[int]], waits: Iterable[Iterable[int]]
) -> list[set[int]]:
    """For each group of tasks the other groups that its tasks wait for, by position."""
    group_of = {task: group for group, tasks in enumerate(groups) for task in tasks}
    awaited_by: list[set[int]] = [set() for _ in groups]
    for task, awaited in enumerate(waits):
        awaited_by[group_of[task]].update([group_of[earlier] for earlier in awaited])
    for group, awaited in enumerate(awaited_by):
        awaited.discard(group)
    return awaited_by


def partition_runs(partitions: Sequence[int | None]) -> list[range]:
    """The places of the nodes that are launched together, by each node's partition.

    Nodes are in launch order; those in no partition are launched alone. Raises PipelineError for a
    partition in several pieces.
    """
    partitions_in_runs = runs(partitions)
    seen = set[int | None]()
    for places in partitions_in_runs:
        partition = partitions[places.start]
        if partition in seen:
            raise PipelineError(
                f"partition {partition} is not in one piece in launch order: run order-launches"
            )
        seen.add(partition)
        # Each node without a partition is a run of None.
        seen.discard(None)
    return partitions_in_runs


def stage_barriers(
    groups: Sequence[range], streams: Sequence[int | None], stages: Sequence[int | None]
) -> list[list[int]]:
    """Which earlier groups each group awaits so that stages follow each other.

    `streams` and `stages` are those of the groups' nodes in launch order. A stage's first group on
    each stream awaits the last one of every stream before the stage; groups without a stage await
    none. Raises PipelineError where a group has several stages, or they do not ascend.
    """
    last: dict[int | None, int] = {}
    awaited: list[int] = []
    barriers: list[list[int]] = []
    stage: int | None = None
    entered = set[int | None]()
    for index, places in enumerate(groups):
        stream = _only("runs on streams", streams[places.start : places.stop])
        group_stage = _only("is in stages", stages[places.start : places.stop])
        if stage is not None and (group_stage is None or group_stage < stage):
            raise PipelineError("stages are not in launch order: run assign-streams again")
        if group_stage != stage:
            stage = group_stage
            entered = set[int | None]()
            awaited = list(last.values())
        barriers.append([] if group_stage is None or stream in entered else awaited)
        entered.add(stream)
        last[stream] = index
    return barriers


def _only(what: str, values: Sequence[int | None]) -> int | None:
    """The value that all nodes of a group share."""
    if values.count(values[0]) != len(values):
        named = " and ".join(map(str, dict.fromkeys(values)))
        raise PipelineError(f"a partition {what} {named}: run assign-streams after partition-graph")
    return values[0]
