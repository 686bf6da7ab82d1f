"""How a run's memory in use and its waiting work change, from the times of its tasks."""

from collections.abc import Iterator, Sequence

from compiler.schedule.tasks import Schedule, View
from compiler.tools.measured import TaskTime

Steps = list[tuple[float, int]]
"""Times in ns, and the value from then on."""


def arena_bytes_in_use(schedule: Schedule, times: Sequence[TaskTime]) -> Steps:
    """Bytes of the arena that hold tensors which a task writes, until their last reader ends.

    A tensor also ends where other bytes are written over it, in launch order.
    """
    live: list[tuple[View, float, float]] = []
    ended: list[tuple[View, float, float]] = []
    for task, time in zip(schedule.tasks, times, strict=True):
        live = [
            (view, start, max(end, time.end)) if _touches(view, task.reads) else (view, start, end)
            for view, start, end in live
        ]
        ended += [one for one in live if _touches(one[0], task.writes)]
        live = [one for one in live if not _touches(one[0], task.writes)]
        live += [
            (v, time.start, time.end)
            for v in task.writes
            if schedule.allocations[v.allocation].kind == "arena"
        ]
    return _summed(_changes((start, end, view.nbytes) for view, start, end in (*ended, *live)))


def tasks_ready(schedule: Schedule, times: Sequence[TaskTime]) -> Steps:
    """Tasks whose predecessors, by tokens and on their stream, have ended, and that have not begun.

    Those without any are ready from the start.
    """
    last: dict[int, int] = {}
    waiting: list[tuple[float, float, int]] = []
    for index, (task, time) in enumerate(zip(schedule.tasks, times, strict=True)):
        before = {*task.after, *([last[task.stream]] if task.stream in last else [])}
        last[task.stream] = index
        ready = max((times[other].end for other in before), default=0.0)
        waiting.append((min(ready, time.start), time.start, 1))
    return _summed(_changes(waiting))


def _touches(view: View, others: Sequence[View]) -> bool:
    end = view.offset + view.nbytes
    return any(
        other.allocation == view.allocation
        and other.offset < end
        and view.offset < other.offset + other.nbytes
        for other in others
    )


def _changes(
    spans: "Sequence[tuple[float, float, int]] | Iterator[tuple[float, float, int]]",
) -> Steps:
    """The changes at the start and the end of spans, in order of time."""
    changes = [(at, by) for start, end, size in spans for at, by in ((start, size), (end, -size))]
    return sorted(changes)


def _summed(changes: Steps) -> Steps:
    """The value after all changes at each time."""
    total, values = 0, dict[float, int]()
    for at, by in changes:
        total += by
        values[at] = total
    return list(values.items())
