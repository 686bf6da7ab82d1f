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
    position_of = {v: position for position, v in enumerate(placement.order)}
    runs = launched_together(placement)
    needed = awaited_nodes(dag, placement)
    waits = waits_between(runs, ([position_of[u] for u in needed[v]] for v in order))
    tasks: list[Task] = []
    for positions, awaited in zip(runs, waits, strict=True):
        tokens = tuple(sorted(runs[run][-1] for run in awaited))
        for position in positions:
            stream = placement.streams[order[position]]
            assert stream is not None, "every node of a placement that is lowered has a stream"
            subflow = positions.start if len(positions) > 1 else None
            tasks.append(
                Task(
                    kernel=kernels[order[position]],
                    stream=stream,
                    after=tokens,
                    reads=(),
                    writes=(),
                    subflow=subflow,
                )
            )
            # A subflow is awaited and entered as a whole: its first task alone waits.
            tokens = ()
    schedule = Schedule("outline", (), tuple(tasks))
    waiting = zip(tasks, remaining_waits(schedule), strict=True)
    return replace(schedule, tasks=tuple(replace(task, after=tokens) for task, tokens in waiting))


def launched_together(placement: Placement) -> list[range]:
    """The places in launch order of the nodes that are launched as one."""
    return partition_runs([placement.partitions[v] for v in placement.order])


def awaited_nodes(dag: DAG, placement: Placement) -> list[set[int]]:
    """For each node those whose results it needs, and those of earlier stages that it awaits."""
    runs = launched_together(placement)
    order = placement.order
    streams = [placement.streams[v] for v in order]
    stages = [placement.stages[v] for v in order]
    awaited = [set(nodes) for nodes in dag.predecessors]
    for positions, barrier in zip(runs, stage_barriers(runs, streams, stages), strict=True):
        awaited[order[positions.start]].update([order[runs[run][-1]] for run in barrier])
    return awaited
