"""The tables that executor.c works from; every field there is a word of 64 bits.

Column numbers and word offsets are those of the structures in executor.c.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from compiler.backends.memory import address, aligned_array
from compiler.errors import KernelError
from compiler.schedule import KernelSpec, Launch, Schedule, Task, View

Words = NDArray[numpy.int64]

LAUNCH_WORDS, STREAM_WORDS, TASK_WORDS, ENGINE_WORDS = 8, 8, 7, 72
LAUNCH_BUFFERS = 1
PER_RUN = ("input", "output", "arena")
"""The kinds of allocations whose addresses change with each run."""


@dataclass(frozen=True)
class ScheduleTables:
    """A schedule as tables, without the addresses of buffers; executors share it.

    Tasks are stored stream by stream. `slots` holds an allocation and a byte offset for each
    argument of each launch; a launch's word LAUNCH_BUFFERS is the number of its first slot.
    """

    streams: Words
    tasks: Words
    launches: Words
    waits: Words
    slots: Words


def make_plan(
    schedule: Schedule, kernels: Mapping[str, KernelSpec], addresses: Mapping[str, int]
) -> ScheduleTables:
    """Lay a schedule out; KernelError if a kernel is missing or does not fit its task."""
    order = sorted(range(len(schedule.tasks)), key=lambda t: (schedule.tasks[t].stream, t))
    position = {task: place for place, task in enumerate(order)}
    tasks: list[tuple[int, ...]] = []
    launches: list[tuple[int, ...]] = []
    slots: list[tuple[int, int]] = []
    waits: list[int] = []
    for index in order:
        task = schedule.tasks[index]
        first_launch, first_wait = len(launches), len(waits)
        for launch, views in _launches(task, kernels):
            blocks = launch.grid[0]
            launches.append((addresses[launch.symbol], len(slots), blocks, blocks, 0, 0, 0, 0))
            slots += [(view.allocation, view.offset) for view in views]
        waits += [position[t] for t in task.after if schedule.tasks[t].stream != task.stream]
        tasks.append((first_launch, len(launches), first_wait, len(waits), index, 0, 0))
    table = _words(tasks, TASK_WORDS)
    table[waits, 5] = 1
    streams = _streams([schedule.tasks[index].stream for index in order])
    return ScheduleTables(
        streams, table, _words(launches, LAUNCH_WORDS), _row(waits), _words(slots, 2)
    )


def _launches(task: Task, kernels: Mapping[str, KernelSpec]) -> Iterator[tuple[Launch, list[View]]]:
    """A task's launches, each with its buffers."""
    views = task.reads + task.writes
    if task.kernel not in kernels:
        raise KernelError(f"the schedule launches '{task.kernel}', which is not among the kernels")
    for launch in kernels[task.kernel].launches:
        if not all(0 <= argument < len(views) for argument in launch.args):
            raise KernelError(
                f"'{launch.symbol}' of kernel '{task.kernel}' takes buffers {launch.args} of a "
                f"task that has {len(views)}"
            )
        yield launch, [views[argument] for argument in launch.args]


def _streams(of_tasks: Sequence[int]) -> Words:
    """The range of each stream's tasks; in run 0, before the first, all have ended."""
    used, first, counts = numpy.unique(_row(of_tasks), return_index=True, return_counts=True)
    table = _words([], STREAM_WORDS, len(used))
    table[:, 0], table[:, 1], table[:, 4] = first, first + counts, first + counts
    return table


def _row(values: Sequence[int]) -> Words:
    return numpy.array(values, numpy.int64)


def _words(rows: Sequence[Sequence[int]], width: int, height: int | None = None) -> Words:
    table = aligned_array((len(rows) if height is None else height, width), numpy.int64)
    table[:] = rows if rows else 0
    return table


class Tables:
    """A plan bound to buffers: the memory of one engine of executor.c, at `address`."""

    def __init__(
        self, plan: ScheduleTables, kinds: Sequence[str], bases: Sequence[int], threads: int
    ):
        """`kinds` and `bases` (ignored for those PER_RUN) have one entry an allocation."""
        self._plan = plan
        streams, tasks, launches = (_copy(t) for t in (plan.streams, plan.tasks, plan.launches))
        allocation, offset = plan.slots[:, 0], plan.slots[:, 1]
        slots = _copy(_row(bases)[allocation] + offset)
        launches[:, LAUNCH_BUFFERS] = address(slots) + 8 * launches[:, LAUNCH_BUFFERS]
        bindings = _bindings(allocation, offset, kinds)
        self._engine = _words([[0] * ENGINE_WORDS], ENGINE_WORDS)
        self._owned = (streams, tasks, launches, plan.waits, slots, bindings)
        head = [threads, len(streams), len(bindings), *map(address, self._owned)]
        self._engine[0, : len(head)] = head
        self.address = address(self._engine)


def _bindings(allocation: Words, offset: Words, kinds: Sequence[str]) -> Words:
    """Slot, number among the buffers that change with each run, and offset there."""
    number = numpy.cumsum([kind in PER_RUN for kind in kinds], dtype=numpy.int64) - 1
    changing = numpy.array([kind in PER_RUN for kind in kinds], numpy.bool_)
    slot = numpy.flatnonzero(changing[allocation])
    return _copy(numpy.stack([slot, number[allocation[slot]], offset[slot]], axis=1))


def _copy(table: Words) -> Words:
    copy = aligned_array(table.shape, numpy.int64)
    copy[:] = table
    return copy
