"""The tensors that follow each other in a schedule's arena, and the bytes in use over time."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from compiler.schedule.tasks import Schedule

Steps = list[tuple[float, int]]
"""Times in ns, and the value from then on."""


@dataclass
class ArenaTensor:
    """A tensor in the arena: its bytes, the task that writes it, and whose bytes it took over.

    `readers` are the tasks that have it in use, its writer among them, in launch order.
    """

    begin: int
    end: int
    first: int
    readers: list[int]
    reuses: list[int] = field(default_factory=list[int])

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self.end - self.begin


@dataclass
class _Arena:
    """The tensor that each byte holds now, as disjoint pieces in the order of their offsets."""

    tensors: list[ArenaTensor] = field(default_factory=list[ArenaTensor])
    pieces: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def _overlapping(self, begin: int, end: int) -> slice:
        start = bisect_left(self.pieces, (begin, 0, 0))
        if start and self.pieces[start - 1][1] > begin:
            start -= 1
        return slice(start, bisect_left(self.pieces, (end, 0, 0)))

    def read(self, begin: int, end: int, task: int) -> None:
        """A task reads bytes, and so keeps the tensors there."""
        for number in {number for _, _, number in self.pieces[self._overlapping(begin, end)]}:
            self.tensors[number].readers.append(task)

    def write(self, begin: int, end: int, task: int) -> None:
        """A task writes a tensor, whose bytes are those of older ones no longer."""
        overlapping = self._overlapping(begin, end)
        old = self.pieces[overlapping]
        number = len(self.tensors)
        reuses = sorted({other for _, _, other in old})
        self.tensors.append(ArenaTensor(begin, end, task, [task], reuses))
        head = [(b, begin, o) for b, _, o in old[:1] if b < begin]
        tail = [(end, e, o) for _, e, o in old[-1:] if e > end]
        self.pieces[overlapping] = [*head, (begin, end, number), *tail]


def arena_tensors(schedule: Schedule, number: int) -> list[ArenaTensor]:
    """The tensors of an arena, the allocation `number`, in the order of the tasks that write them.

    Tasks are in launch order: bytes are reused only where tokens order the uses in it.
    """
    arena = _Arena()
    for index, task in enumerate(schedule.tasks):
        for views, take in ((task.reads, arena.read), (task.writes, arena.write)):
            for view in views:
                if view.allocation == number and view.nbytes:
                    take(view.offset, view.offset + view.nbytes, index)
    return arena.tensors


def steps_of(spans: Iterable[tuple[float, float, int]]) -> Steps:
    """The sum of the sizes of the spans (start, end, size) that have begun and not ended."""
    changes = dict[float, int]()
    for start, end, size in spans:
        changes[start] = changes.get(start, 0) + size
        changes[end] = changes.get(end, 0) - size
    total = 0
    steps = Steps()
    for time in sorted(changes):
        total += changes[time]
        steps.append((time, total))
    return steps
