"""Which tasks of a schedule touch the same bytes, found by one sweep in launch order."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from compiler.schedule import Schedule, View

UNWRITTEN = -1
"""The `earlier` of a conflict whose bytes no task has written before they are read."""


class Conflict(NamedTuple):
    """Two tasks that touch the bytes [begin, end) of an allocation, of which one writes them.

    `earlier` is `UNWRITTEN` where `later` reads bytes that nothing wrote; `later` is the number
    of tasks where the caller reads an output.
    """

    earlier: int
    later: int
    allocation: int
    begin: int
    end: int
    earlier_writes: bool
    later_writes: bool


class _Memory:
    """An allocation cut into segments, each with its last writer and the readers since."""

    def __init__(self, size: int):
        self.size = size
        self.begins = [0]
        self.writers = [UNWRITTEN]
        self.readers: list[list[int]] = [[]]

    def _cut(self, position: int) -> int:
        """The index of the segment that begins at this byte, after cutting there."""
        index = bisect_left(self.begins, position)
        if index == len(self.begins) or self.begins[index] != position:
            if position < self.size:
                self.begins.insert(index, position)
                self.writers.insert(index, self.writers[index - 1])
                self.readers.insert(index, list(self.readers[index - 1]))
        return index

    def _segments(self, begin: int, end: int) -> range:
        first = self._cut(begin)
        return range(first, self._cut(end))

    def end_of(self, index: int) -> int:
        """The byte after a segment."""
        return self.begins[index + 1] if index + 1 < len(self.begins) else self.size

    def read(self, task: int, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Note a read; yields (last writer, begin, end) of its pieces."""
        for index in self._segments(begin, end):
            self.readers[index].append(task)
            yield self.writers[index], self.begins[index], self.end_of(index)

    def write(self, task: int, begin: int, end: int) -> Iterator[tuple[int, int, int, bool]]:
        """Note a write; yields (task, begin, end, whether it wrote) of what was there."""
        segments = self._segments(begin, end)
        for index in segments:
            first, last = self.begins[index], self.end_of(index)
            if self.writers[index] != UNWRITTEN:
                yield self.writers[index], first, last, True
            for reader in self.readers[index]:
                yield reader, first, last, False
        self.begins[segments.start : segments.stop] = [begin]
        self.writers[segments.start : segments.stop] = [task]
        self.readers[segments.start : segments.stop] = [[]]


def conflicts(schedule: Schedule) -> Iterator[Conflict]:
    """Each access against the last write of its bytes, each write also against the reads since.

    These imply all other orders: a schedule is free of races if and only if each pair is ordered.
    Linear in the number of pieces that accesses cut each other into.
    """
    shared = [allocation.kind in ("arena", "output") for allocation in schedule.allocations]
    memory = {i: _Memory(schedule.allocations[i].nbytes) for i in range(len(shared)) if shared[i]}
    for index, task in enumerate(schedule.tasks):
        for view in task.reads:
            if shared[view.allocation] and (size := view.nbytes):
                yield from _reads(memory[view.allocation], index, view, size)
        for view in task.writes:
            if shared[view.allocation] and (size := view.nbytes):
                yield from _writes(memory[view.allocation], index, view, size)
    for number, allocation in enumerate(schedule.allocations):
        if allocation.kind == "output" and allocation.nbytes:
            for writer, begin, end in memory[number].read(
                len(schedule.tasks), 0, allocation.nbytes
            ):
                if writer == UNWRITTEN:
                    yield Conflict(UNWRITTEN, len(schedule.tasks), number, begin, end, True, False)


def _reads(memory: _Memory, task: int, view: View, size: int) -> Iterator[Conflict]:
    for writer, begin, end in memory.read(task, view.offset, view.offset + size):
        yield Conflict(writer, task, view.allocation, begin, end, True, False)


def _writes(memory: _Memory, task: int, view: View, size: int) -> Iterator[Conflict]:
    for other, begin, end, wrote in memory.write(task, view.offset, view.offset + size):
        yield Conflict(other, task, view.allocation, begin, end, wrote, True)
