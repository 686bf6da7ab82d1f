"""When the threads of a run worked on which task, from what the executor wrote down."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from compiler.backends.cpu.tables import TASK_ORDER, ScheduleTables, Words

TIMED_RUNS = 15
"""The runs of a timeline: the one of median length is reported."""

SETTLING_RUNS = 3

CLAIMS = 64
"""Place for this many claims of a launch's blocks by each helping thread."""


@dataclass(frozen=True, slots=True)
class ThreadSpan:
    """One thread's work on a task, in nanoseconds from the start of the first.

    Threads are numbered in the order in which they began. One that `helps` executed blocks of a
    task that another thread ran.
    """

    task: int
    thread: int
    start: int
    end: int
    helps: bool = False


def spans_of(tasks: int, launches: int, threads: int) -> int:
    """The spans that a run is given place for: later ones are lost."""
    return tasks + launches * (threads - 1) * CLAIMS


def read_spans(rows: Words, plan: ScheduleTables) -> list[ThreadSpan]:
    """The spans of the executor's rows, by their start."""
    if not len(rows):
        return []
    origin = int(rows[:, 3].min())
    threads: dict[int, int] = {}
    spans: list[ThreadSpan] = []
    for row in rows[numpy.argsort(rows[:, 3], kind="stable")].tolist():
        position, launch, thread, start, end = row
        helps = position < 0
        task = _task_of(launch, plan) if helps else int(plan.tasks[position, TASK_ORDER])
        number = threads.setdefault(thread, len(threads))
        if task is not None:
            spans.append(ThreadSpan(task, number, start - origin, end - origin, helps))
    return spans


def _task_of(launch: int, plan: ScheduleTables) -> int | None:
    """The task of a launch; None for one of a body, whose task has a span anyway."""
    inside = (plan.tasks[:, 0] <= launch) & (launch < plan.tasks[:, 1])
    return int(plan.tasks[int(inside.argmax()), TASK_ORDER]) if inside.any() else None


def median_run(run: Callable[[], list[ThreadSpan]], runs: int) -> list[ThreadSpan]:
    """The spans of the run of median length, after some to warm up."""
    timed = [run() for _ in range(SETTLING_RUNS + runs)][SETTLING_RUNS:]
    timed.sort(key=lambda spans: max((span.end for span in spans), default=0))
    return timed[len(timed) // 2]
