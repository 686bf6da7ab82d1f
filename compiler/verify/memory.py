"""Where the tensors of an arena go: those that are never live at once may share bytes."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from compiler.schedule.tasks import Schedule, arena_aligned
from compiler.verify.happens_before import HappensBefore

EXHAUSTIVE_REGIONS = 2000
"""Up to this many regions, placement by size, which is quadratic, is tried as well."""

Clocks = NDArray[np.int32]


@dataclass(frozen=True)
class ArenaPlan:
    """New offsets for an arena of `before` bytes, which then takes `size` bytes."""

    before: int
    size: int
    begins: Sequence[int]
    offsets: Sequence[int]

    def move(self, offset: int) -> int:
        """The new offset of a view at an old offset; one without bytes is in no region."""
        region = bisect_right(self.begins, offset) - 1
        if region < 0:
            return 0
        return min(self.offsets[region] + offset - self.begins[region], self.size)


@dataclass(frozen=True)
class Lifetimes:
    """Regions of an arena: bytes that views tie together, and when they are in use.

    A region `a` is dead before `b` starts if `last[a] <= start[b]` in each stream, where `last` is
    the clock of its last accesses and `start` what has finished when its first access starts.
    """

    begins: Sequence[int]
    sizes: Sequence[int]
    first: NDArray[np.int64]
    final: NDArray[np.int64]
    last: Clocks
    start: Clocks

    def apart(self, region: int, candidates: Sequence[int]) -> NDArray[np.bool_]:
        """Which of the candidates are never in use at the same time as a region."""
        regions = np.array(candidates, np.int64)
        dies_earlier = (self.last[regions] <= self.start[region]).all(axis=1)
        starts_later = (self.last[region] <= self.start[regions]).all(axis=1)
        return dies_earlier | starts_later


def plan_arena(schedule: Schedule, allocation: int, order: HappensBefore) -> ArenaPlan:
    """Pack an arena: two regions share bytes only if all uses of one happen before the other.

    Best fit in launch order; for small arenas also largest first, and the better of the two. An
    arena that this would enlarge stays: parts of a tensor that nobody uses as a whole may be
    closer.
    """
    regions = lifetimes(schedule, allocation, order)
    offsets = packed_offsets(regions)
    old_size = schedule.allocations[allocation].nbytes
    size = _top(regions, offsets)
    if size > old_size:
        return ArenaPlan(old_size, old_size, (0,), (0,))
    return ArenaPlan(old_size, size, regions.begins, offsets)


def packed_offsets(regions: Lifetimes) -> Sequence[int]:
    """Offsets at which regions share bytes where they may: the better of two ways to pack them."""
    # Each region, in the order of their first launches, in a gap that the dead have left.
    offsets = [0] * len(regions.begins)
    live: list[tuple[int, int]] = []
    free = _FreeList()
    firsts = regions.first.tolist()
    finals = regions.final.tolist()
    for region in sorted(range(len(offsets)), key=lambda r: (firsts[r], -regions.sizes[r])):
        while live and live[0][0] < firsts[region]:
            dead = heappop(live)[1]
            free.add(offsets[dead], offsets[dead] + regions.sizes[dead], dead)
        usable = (regions.last[free.regions] <= regions.start[region]).all(axis=1)
        offsets[region] = free.take(regions.sizes[region], usable)
        heappush(live, (finals[region], region))
    if len(regions.begins) > EXHAUSTIVE_REGIONS:
        return offsets
    return min(offsets, _largest_first(regions), key=lambda region: _top(regions, region))


def _top(regions: Lifetimes, offsets: Sequence[int]) -> int:
    ends = (offset + size for offset, size in zip(offsets, regions.sizes, strict=True))
    return max(ends, default=0)


def lifetimes(schedule: Schedule, allocation: int, order: HappensBefore) -> Lifetimes:
    """The regions of an arena: overlapping views make one region."""
    uses = [
        (view.offset, view.offset + size, index)
        for index, task in enumerate(schedule.tasks)
        for view in (*task.reads, *task.writes)
        if view.allocation == allocation and (size := view.nbytes)
    ]
    begins: list[int] = []
    ends: list[int] = []
    for begin, end, _ in sorted(uses):
        if not ends or begin >= ends[-1]:
            begins.append(begin)
            ends.append(end)
        else:
            ends[-1] = max(ends[-1], end)
    tasks = np.array([task for _, _, task in uses], np.int64)
    region = np.array([bisect_right(begins, begin) - 1 for begin, _, _ in uses], np.int64)
    count = len(begins)
    streams = order.clocks.shape[1]
    first = np.full(count, len(schedule.tasks), np.int64)
    final = np.zeros(count, np.int64)
    last = np.zeros((count, streams), np.int32)
    start = np.full((count, streams), np.iinfo(np.int32).max, np.int32)
    np.minimum.at(first, region, tasks)
    np.maximum.at(final, region, tasks)
    np.maximum.at(last, (region, order.streams[tasks]), order.positions[tasks])
    np.minimum.at(start, region, order.clocks_at_start()[tasks])
    sizes = [arena_aligned(end - begin) for begin, end in zip(begins, ends, strict=True)]
    return Lifetimes(begins=begins, sizes=sizes, first=first, final=final, last=last, start=start)


class _FreeList:
    """Bytes of regions that no later task uses, by address; each knows its last region."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.regions: list[int] = []
        self.top = 0

    def add(self, begin: int, end: int, region: int) -> None:
        """Free the bytes of a region."""
        index = bisect_right(self.begins, begin)
        self.begins.insert(index, begin)
        self.ends.insert(index, end)
        self.regions.insert(index, region)

    def take(self, size: int, usable: NDArray[np.bool_]) -> int:
        """Bytes out of the smallest usable run that is large enough, else at the top."""
        runs = [
            (self.ends[stop - 1] - self.begins[go], go, stop) for go, stop in self._runs(usable)
        ]
        fitting = [run for run in runs if run[0] >= size]
        if fitting:
            _, go, stop = min(fitting)
        # A run that ends at the top may grow: only the bytes that it is short of are new.
        elif runs and self.ends[runs[-1][2] - 1] == self.top:
            _, go, stop = runs[-1]
        else:
            go = stop = len(self.begins)
        begin = self.begins[go] if go < stop else self.top
        self._cut(go, stop, begin + size)
        self.top = max(self.top, begin + size)
        return begin

    def _runs(self, usable: NDArray[np.bool_]) -> list[tuple[int, int]]:
        """First and last index + 1 of the usable pieces that touch each other."""
        runs: list[tuple[int, int]] = []
        for index in np.flatnonzero(usable).tolist():
            touches = index > 0 and self.begins[index] == self.ends[index - 1]
            go = runs.pop()[0] if touches and runs and runs[-1][1] == index else index
            runs.append((go, index + 1))
        return runs

    def _cut(self, go: int, stop: int, end: int) -> None:
        """Remove the bytes below `end` from the free pieces go to stop."""
        while stop > go and self.ends[go] <= end:
            for column in (self.begins, self.ends, self.regions):
                del column[go]
            stop -= 1
        if stop > go:
            self.begins[go] = max(self.begins[go], end)


def _largest_first(regions: Lifetimes) -> list[int]:
    """Each region at the lowest offset that is free of those that may live with it."""
    offsets = np.zeros(len(regions.begins), np.int64)
    sizes = np.array(regions.sizes, np.int64)
    placed: list[int] = []
    for region in np.argsort(-sizes, kind="stable").tolist():
        live_together = np.array(placed, np.int64)[~regions.apart(region, placed)]
        live_together = live_together[np.argsort(offsets[live_together], kind="stable")]
        ends = np.maximum.accumulate(np.concatenate(([0], (offsets + sizes)[live_together])))
        # the gap after the last one has no end, so that argmax always meets one that is enough
        gaps = np.append(offsets[live_together], np.iinfo(np.int64).max) - ends
        offsets[region] = ends[int((gaps >= sizes[region]).argmax())]
        placed.append(region)
    return offsets.tolist()
