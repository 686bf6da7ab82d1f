"""The memory of a schedule for the explorer: tensors of the arena in time, and whose bytes."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compiler.schedule.tasks import Schedule
from compiler.scheduling.simulator import Timeline
from compiler.tools.explore.document import AllocationFact, MemoryFact, RegionFact


@dataclass
class _Occupant:
    """A tensor in the arena: its bytes, its first and last task, and whose bytes it took over."""

    begin: int
    end: int
    first: int
    final: int
    reuses: list[int] = field(default_factory=list[int])


@dataclass
class _Arena:
    """The tensor that each byte holds now, as disjoint pieces in the order of their offsets."""

    occupants: list[_Occupant] = field(default_factory=list[_Occupant])
    pieces: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def _overlapping(self, begin: int, end: int) -> slice:
        start = bisect_left(self.pieces, (begin, 0, 0))
        if start and self.pieces[start - 1][1] > begin:
            start -= 1
        return slice(start, bisect_left(self.pieces, (end, 0, 0)))

    def read(self, begin: int, end: int, task: int) -> None:
        """A task reads bytes, and so keeps the tensors there."""
        for _, _, occupant in self.pieces[self._overlapping(begin, end)]:
            self.occupants[occupant].final = task

    def write(self, begin: int, end: int, task: int) -> None:
        """A task writes a tensor, whose bytes are those of older ones no longer."""
        overlapping = self._overlapping(begin, end)
        old = self.pieces[overlapping]
        number = len(self.occupants)
        reuses = sorted({occupant for _, _, occupant in old})
        self.occupants.append(_Occupant(begin, end, task, task, reuses))
        before = [(b, begin, o) for b, _, o in old[:1] if b < begin]
        after = [(end, e, o) for _, e, o in old[-1:] if e > end]
        self.pieces[overlapping] = [*before, (begin, end, number), *after]


def memory_fact(schedule: Schedule, timeline: Timeline) -> MemoryFact:
    """Allocations, the tensors of arenas, and bytes in use over the predicted time."""
    regions: list[RegionFact] = []
    for index, allocation in enumerate(schedule.allocations):
        if allocation.kind == "arena":
            regions += _regions(schedule, index, timeline, len(regions))
    steps = list(_steps(regions))
    return MemoryFact(
        allocations=[
            AllocationFact(a.kind, a.name, a.dtype, a.shape, a.nbytes) for a in schedule.allocations
        ],
        regions=regions,
        steps=steps,
        peak=max((nbytes for _, nbytes in steps), default=0),
        apart=sum(region.nbytes for region in regions),
    )


def _regions(
    schedule: Schedule, number: int, timeline: Timeline, base: int
) -> Iterator[RegionFact]:
    """The tensors of one arena in the order of the tasks that write them."""
    for tensor in _occupants(schedule, number):
        yield RegionFact(
            allocation=number,
            offset=tensor.begin,
            nbytes=tensor.end - tensor.begin,
            first=tensor.first,
            final=tensor.final,
            start=timeline.start[tensor.first],
            end=timeline.end[tensor.final],
            reuses=tuple(base + other for other in tensor.reuses),
        )


def _occupants(schedule: Schedule, number: int) -> list[_Occupant]:
    """Tasks in launch order: bytes are reused only where tokens order the uses in it."""
    arena = _Arena()
    for index, task in enumerate(schedule.tasks):
        for view in task.reads:
            if view.allocation == number and view.nbytes:
                arena.read(view.offset, view.offset + view.nbytes, index)
        for view in task.writes:
            if view.allocation == number and view.nbytes:
                arena.write(view.offset, view.offset + view.nbytes, index)
    return arena.occupants


def _steps(regions: Sequence[RegionFact]) -> Iterator[tuple[float, int]]:
    """The times at which the bytes in use change, each with the bytes from then on."""
    changes: dict[float, int] = {}
    for region in regions:
        changes[region.start] = changes.get(region.start, 0) + region.nbytes
        changes[region.end] = changes.get(region.end, 0) - region.nbytes
    used = 0
    for time in sorted(changes):
        used += changes[time]
        yield time, used
