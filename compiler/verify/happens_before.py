"""Happens-before of a schedule by vector clocks, and the races it leaves.

After Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978), with one
clock component a stream (Fidge, Mattern 1988).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.errors import ScheduleError
from compiler.schedule.tasks import Schedule
from compiler.verify.conflicts import UNWRITTEN, Conflict, conflicts
from compiler.verify.structure import check_structure, describe_bytes, describe_task

_Clocks = NDArray[np.int64]


class HappensBefore:
    """Which tasks have finished when a task starts, by stream order and awaited tokens.

    Building takes O((tasks + tokens) * streams); every token must point to an earlier task.
    """

    def __init__(self, schedule: Schedule):
        numbers = {s: i for i, s in enumerate(sorted({task.stream for task in schedule.tasks}))}
        count = len(schedule.tasks)
        self.streams = np.fromiter((numbers[t.stream] for t in schedule.tasks), np.int64, count)
        """The stream of each task, numbered from 0 without gaps."""
        self.positions = np.zeros(count, np.int64)
        """1 for the first task of each stream, 2 for the second, and so on."""
        self.clocks = np.zeros((count, max(len(numbers), 1)), np.int32)
        """For each task and stream: the position of the last task finished when it finishes."""
        last: dict[int, int] = {}
        for index, stream in enumerate(self.streams.tolist()):
            clock = self.clocks[index]
            if stream in last:
                clock[:] = self.clocks[last[stream]]
            for awaited in schedule.tasks[index].after:
                np.maximum(clock, self.clocks[awaited], out=clock)
            clock[stream] += 1
            self.positions[index] = clock[stream]
            last[stream] = index

    def clocks_at_start(self) -> NDArray[np.int32]:
        """For each task and stream: the position of the last task finished when it starts."""
        clocks = self.clocks.copy()
        # When it starts, only the task itself is missing from what has finished when it ends.
        clocks[np.arange(len(clocks)), self.streams] -= 1
        return clocks

    def ordered(self, earlier: int, later: int) -> bool:
        """Whether one task has always finished before another starts."""
        finished = self.clocks[later, self.streams[earlier]]
        return earlier != later and bool(finished >= self.positions[earlier])

    def all_ordered(self, earlier: _Clocks, later: _Clocks) -> NDArray[np.bool_]:
        """`ordered` of many pairs."""
        finished = self.clocks[later, self.streams[earlier]]
        return (earlier != later) & (finished >= self.positions[earlier])


@dataclass(frozen=True, slots=True)
class Race:
    """Two tasks that touch the same bytes, of which one writes them, without an order."""

    conflict: Conflict

    def describe(self, schedule: Schedule) -> str:
        """Both tasks, the bytes and the order that is missing, in a sentence."""
        pair = self.conflict
        earlier = f"task {pair.earlier} {describe_task(schedule, pair.earlier)}"
        later = f"task {pair.later} {describe_task(schedule, pair.later)}"
        bytes_ = describe_bytes(schedule, pair.allocation, pair.begin, pair.end)
        did = "writes" if pair.earlier_writes else "reads"
        does = "writes" if pair.later_writes else "reads"
        if pair.earlier == pair.later:
            return f"{later} {does} {bytes_}, which it also {did}"
        return (
            f"race: {later} {does} {bytes_}, which {earlier} {did}, but nothing orders them:"
            f" neither streams nor tokens make task {pair.later} wait for task {pair.earlier}"
        )


def find_race(schedule: Schedule) -> Race | None:
    """The first pair of tasks in launch order that conflict without an order, or None."""
    return _first_race(schedule, [pair for pair in conflicts(schedule) if pair.earlier >= 0])


def check_schedule(schedule: Schedule) -> None:
    """Raise ScheduleError, with the tasks and the bytes, unless the schedule is valid.

    Valid: well formed, no read of bytes that nothing wrote or that were last written as another
    type, outputs written in full, no race, and the same within bodies. An iteration of a loop
    starts when the one before has ended, and its tensors are disjoint bytes, which its task reads
    or writes: so each is checked by itself.
    """
    check_structure(schedule)
    _check_order(schedule)


def _check_order(schedule: Schedule) -> None:
    for index, task in enumerate(schedule.tasks):
        for body in task.control.bodies if task.control is not None else ():
            try:
                _check_order(body)
            except ScheduleError as error:
                where = f"in '{body.name}' of task {index} {describe_task(schedule, index)}"
                raise ScheduleError(f"{where}: {error}") from error
    pairs: list[Conflict] = []
    for pair in conflicts(schedule):
        if pair.earlier == UNWRITTEN:
            raise ScheduleError(_describe_unwritten(schedule, pair))
        if pair.types is not None:
            raise ScheduleError(_describe_types(schedule, pair, pair.types))
        pairs.append(pair)
    if (race := _first_race(schedule, pairs)) is not None:
        raise ScheduleError(race.describe(schedule))


def _first_race(schedule: Schedule, pairs: list[Conflict]) -> Race | None:
    if not pairs:
        return None
    ends = np.array([(pair.earlier, pair.later) for pair in pairs], np.int64)
    ordered = HappensBefore(schedule).all_ordered(ends[:, 0], ends[:, 1])
    # of booleans, argmin is the first that is false
    return None if ordered.all() else Race(pairs[int(ordered.argmin())])


def _describe_types(schedule: Schedule, pair: Conflict, types: tuple[str, str]) -> str:
    bytes_ = describe_bytes(schedule, pair.allocation, pair.begin, pair.end)
    earlier = f"task {pair.earlier} {describe_task(schedule, pair.earlier)}"
    later = f"task {pair.later} {describe_task(schedule, pair.later)}"
    return f"{later} reads {bytes_} as {types[1]}, which {earlier} writes as {types[0]}"


def _describe_unwritten(schedule: Schedule, pair: Conflict) -> str:
    bytes_ = describe_bytes(schedule, pair.allocation, pair.begin, pair.end)
    if pair.later == len(schedule.tasks):
        return f"{bytes_} are never written: a task that produces this output is missing"
    later = f"task {pair.later} {describe_task(schedule, pair.later)}"
    return f"{later} reads {bytes_} before any task writes them"
