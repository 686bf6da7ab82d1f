"""The schedule that the passes make of a placement, without memory: tasks and waits."""

from collections.abc import Sequence
from dataclasses import replace

from compiler.schedule.tasks import Schedule, Task
from compiler.scheduling.placement import Placement
from compiler.scheduling.subflows import (
    partition_runs,
    remaining_waits,
    stage_barriers,
    waits_between,
)
from compiler.support.dag import DAG


def outline(dag: DAG, placement: Placement, kernels: Sequence[str]) -> Schedule:
    """The schedule of a placement without allocations, with one kernel a node: enough to simulate.

    Raises PipelineError for a placement that `lower-to-taskflow` refuses.
    """
    order = placement.order
    place_of = {v: place for place, v in enumerate(placement.order)}
    parts = launched_together(placement)
    needed = awaited_nodes(dag, placement)
    waits = waits_between(parts, ([place_of[u] for u in needed[v]] for v in order))
    tasks: list[Task] = []
    for places, awaited in zip(parts, waits, strict=True):
        after = tuple(sorted(parts[part][-1] for part in awaited))
        for place in places:
            stream = placement.streams[order[place]]
            assert stream is not None, "every node of a placement that is lowered has a stream"
            subflow = places.start if len(places) > 1 else None
            tasks.append(
                Task(
                    kernel=kernels[order[place]],
                    stream=stream,
                    after=after,
                    reads=(),
                    writes=(),
                    subflow=subflow,
                )
            )
            after = ()
    schedule = Schedule("outline", (), tuple(tasks))
    waiting = zip(tasks, remaining_waits(schedule), strict=True)
    return replace(schedule, tasks=tuple(replace(task, after=after) for task, after in waiting))


def launched_together(placement: Placement) -> list[range]:
    """The places in launch order of the nodes that are launched as one."""
    return partition_runs([placement.partitions[v] for v in placement.order])


def awaited_nodes(dag: DAG, placement: Placement) -> list[set[int]]:
    """For each node those whose results it needs, and those of earlier stages that it awaits."""
    parts = launched_together(placement)
    order = placement.order
    streams = [placement.streams[v] for v in order]
    stages = [placement.stages[v] for v in order]
    awaited = [set(before) for before in dag.predecessors]
    for places, barrier in zip(parts, stage_barriers(parts, streams, stages), strict=True):
        awaited[order[places.start]].update([order[parts[part][-1]] for part in barrier])
    return awaited
