"""Which tasks of a schedule touch the same bytes, found by one sweep in launch order."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from compiler.schedule.tasks import Schedule, View

UNWRITTEN = -1
"""The `earlier` of a conflict whose bytes no task has written before they are read."""


class Conflict(NamedTuple):
    """Two tasks that touch the bytes [begin, end) of an allocation, of which one writes them.

    `earlier` is `UNWRITTEN` where `later` reads bytes that nothing wrote; `later` is the number
    of tasks where the caller reads an output. `types` are the dtypes as which the bytes are written
    and read, if they differ.
    """

    earlier: int
    later: int
    allocation: int
    begin: int
    end: int
    earlier_writes: bool
    later_writes: bool
    types: tuple[str, str] | None = None


Writer = tuple[int, str]
"""A task and the type as which it writes."""

NOBODY: Writer = (UNWRITTEN, "")


class _Whole:
    """Bytes that a view holds all of or none of: their last writer and the readers since."""

    __slots__ = "readers", "writer"

    def __init__(self) -> None:
        self.writer = NOBODY
        self.readers: list[int] = []

    def read(self, task: int, begin: int, end: int) -> Iterable[tuple[Writer, int, int]]:
        """Note a read; gives (last writer, begin, end)."""
        self.readers.append(task)
        return ((self.writer, begin, end),)

    def write(self, writer: Writer, begin: int, end: int) -> Iterable[tuple[int, int, int, bool]]:
        """Note a write; gives (task, begin, end, whether it wrote) of what was there."""
        last = self.writer[0]
        accesses = [(last, begin, end, True)] if last != UNWRITTEN else []
        accesses += [(reader, begin, end, False) for reader in self.readers]
        self.writer = writer
        self.readers = []
        return accesses


class _Memory:
    """Bytes in segments, each with its last writer and the readers since."""

    __slots__ = "begins", "end", "readers", "writers"

    def __init__(self, begin: int, end: int):
        self.end = end
        self.begins = [begin]
        self.writers = [NOBODY]
        self.readers: list[list[int]] = [[]]

    def _cut(self, position: int) -> int:
        """The index of the segment that begins at this byte, split off where there was none."""
        index = bisect_left(self.begins, position)
        if index == len(self.begins) or self.begins[index] != position:
            if position < self.end:
                self.begins.insert(index, position)
                self.writers.insert(index, self.writers[index - 1])
                self.readers.insert(index, list(self.readers[index - 1]))
        return index

    def _segments(self, begin: int, end: int) -> range:
        first = self._cut(begin)
        return range(first, self._cut(end))

    def end_of(self, index: int) -> int:
        """The byte after a segment."""
        return self.begins[index + 1] if index + 1 < len(self.begins) else self.end

    def read(self, task: int, begin: int, end: int) -> Iterator[tuple[Writer, int, int]]:
        """Note a read; yields (last writer, begin, end) of its pieces."""
        for index in self._segments(begin, end):
            self.readers[index].append(task)
            yield self.writers[index], self.begins[index], self.end_of(index)

    def write(self, writer: Writer, begin: int, end: int) -> Iterator[tuple[int, int, int, bool]]:
        """Note a write; yields (task, begin, end, whether it wrote) of what was there."""
        segments = self._segments(begin, end)
        for index in segments:
            first = self.begins[index]
            last = self.end_of(index)
            task, _ = self.writers[index]
            if task != UNWRITTEN:
                yield task, first, last, True
            for reader in self.readers[index]:
                yield reader, first, last, False
        self.begins[segments.start : segments.stop] = [begin]
        self.writers[segments.start : segments.stop] = [writer]
        self.readers[segments.start : segments.stop] = [[]]


class _Regions:
    """The parts of an allocation that no view crosses, so that each is divided separately."""

    def __init__(self, extents: Iterable[tuple[int, int]]):
        self.begins: list[int] = []
        ends: list[int] = []
        self.memories: dict[int, _Whole | _Memory] = {}
        for begin, end in sorted(extents):
            if not ends or begin >= ends[-1]:
                self.begins.append(begin)
                ends.append(end)
                self.memories[begin] = _Whole()
            else:
                ends[-1] = max(ends[-1], end)
                self.memories[self.begins[-1]] = _Memory(self.begins[-1], ends[-1])

    def at(self, offset: int) -> _Whole | _Memory:
        """The part that holds a byte which some view holds."""
        # most views begin where a part does: the search is for those that do not
        if (memory := self.memories.get(offset)) is not None:
            return memory
        return self.memories[self.begins[bisect_right(self.begins, offset) - 1]]


def _regions(schedule: Schedule) -> dict[int, _Regions]:
    """The parts of each allocation that tasks write; an output is one, as callers read it whole."""
    extents: dict[int, set[tuple[int, int]]] = {
        number: {(0, allocation.nbytes)} if allocation.kind == "output" else set()
        for number, allocation in enumerate(schedule.allocations)
        if allocation.kind in ("arena", "output")
    }
    for task in schedule.tasks:
        for view in (*task.reads, *task.writes):
            if view.allocation in extents and (size := view.nbytes):
                extents[view.allocation].add((view.offset, view.offset + size))
    return {number: _Regions(ranges) for number, ranges in extents.items()}


def conflicts(schedule: Schedule) -> Iterator[Conflict]:
    """Each access against the last write of its bytes, each write also against the reads since.

    These imply all other orders: a schedule is free of races if and only if each pair is ordered.
    O(n log n) in the accesses, and linear in the pieces between their ends.
    """
    memory = _regions(schedule)
    for index, task in enumerate(schedule.tasks):
        for view in task.reads:
            if view.allocation in memory and (size := view.nbytes):
                yield from _reads(memory[view.allocation].at(view.offset), index, view, size)
        for view in task.writes:
            if view.allocation in memory and (size := view.nbytes):
                yield from _writes(memory[view.allocation].at(view.offset), index, view, size)
    for number, allocation in enumerate(schedule.allocations):
        if allocation.kind == "output" and allocation.nbytes:
            pieces = memory[number].at(0).read(len(schedule.tasks), 0, allocation.nbytes)
            for (writer, _), begin, end in pieces:
                if writer == UNWRITTEN:
                    yield _read(UNWRITTEN, len(schedule.tasks), number, begin, end)


def needed_waits(schedule: Schedule) -> list[set[int]]:
    """For each task the earlier ones that touch the same bytes, unless both only read.

    The tasks' own waits are not counted. O(n log n) in the accesses, and linear in the pieces
    between their ends.
    """
    waits: list[set[int]] = [set() for _ in schedule.tasks]
    for pair in conflicts(schedule):
        if pair.earlier != UNWRITTEN and pair.later < len(waits):
            waits[pair.later].add(pair.earlier)
    return waits


def _read(writer: int, reader: int, allocation: int, begin: int, end: int) -> Conflict:
    return Conflict(writer, reader, allocation, begin, end, earlier_writes=True, later_writes=False)


def _reads(memory: _Whole | _Memory, task: int, view: View, size: int) -> Iterator[Conflict]:
    for (writer, dtype), begin, end in memory.read(task, view.offset, view.offset + size):
        pair = _read(writer, task, view.allocation, begin, end)
        differ = dtype != view.dtype and writer != UNWRITTEN
        yield pair._replace(types=(dtype, view.dtype)) if differ else pair


def _writes(memory: _Whole | _Memory, task: int, view: View, size: int) -> Iterator[Conflict]:
    writer = (task, view.dtype)
    stop = view.offset + size
    for earlier, begin, end, wrote in memory.write(writer, view.offset, stop):
        yield Conflict(
            earlier, task, view.allocation, begin, end, earlier_writes=wrote, later_writes=True
        )
