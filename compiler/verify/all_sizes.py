"""The proof, made once, that a symbolic schedule is valid for all sizes within limits.

Races, reads before writes and accesses beyond a tensor depend on the order in which the ends of
views follow each other in an allocation. Where this order is one for all sizes, their ranks stand
for them: the schedule of ranks, which is one of numbers, is checked as any other. For some
sizes there may be no bytes between two ranks; to check conflicts about them does no harm.

Tensors of the arena are checked as if each had separate memory. Two slots, neither of which is
above the other for all sizes, may share bytes: all uses of one must come before those of the other.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

from compiler.errors import ScheduleError
from compiler.schedule.kernels import LARGEST_COUNT, LARGEST_SIDE
from compiler.schedule.numbering import ARENA, NumberedSchedule, numbered
from compiler.schedule.symbolic import SymbolicSchedule
from compiler.schedule.tasks import (
    ARENA_ALIGNMENT,
    Allocation,
    Schedule,
    Task,
    View,
    arena_aligned,
)
from compiler.tensors.assumptions import assuming_nothing
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.tensors.exact import divides, plain, same_extents
from compiler.tensors.extents import (
    Extent,
    NotForAllSizes,
    Symbol,
    Undecided,
    at_hints,
    extent_of,
    symbols_of,
)
from compiler.tensors.inequalities import at_least_zero
from compiler.tensors.substitution import has_symbols
from compiler.verify.certificate import LARGEST_GRID, check_operands
from compiler.verify.happens_before import HappensBefore, check_schedule
from compiler.verify.measuring import Measuring, measuring_of
from compiler.verify.memory import lifetimes
from compiler.verify.schedule_json import to_json
from compiler.verify.seals import check_seals, kernel_seal
from compiler.verify.structure import LARGEST_MEMORY

GRAIN = ARENA_ALIGNMENT
"""The bytes between two ranks: a multiple of every element's."""

Ranks = Mapping[Extent, int]
"""Bytes of the schedule of ranks, by those of the schedule."""


@dataclass(frozen=True)
class SizesCertificate:
    """That a schedule and its kernels are valid for all sizes within the limits of its numbers.

    Only one that `certified_for_all_sizes` issued counts.
    """

    schedule: SymbolicSchedule
    numbers: NumberedSchedule
    measuring: Measuring
    issued: bool = field(default=False, init=False)

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of the schedule, of its slots and symbols, and of the kernels' seals."""
        symbolic = self.schedule
        digest = hashlib.sha256(to_json(symbolic.schedule).encode())
        digest.update(repr((symbolic.slots, sorted(symbolic.extents.items()))).encode())
        digest.update(repr([*symbolic.symbols.values()]).encode())
        for kernel in symbolic.kernels.values():
            digest.update(kernel_seal(kernel))
        return digest.hexdigest()

    @property
    def limits(self) -> Mapping[str, tuple[int, int]]:
        """The least and the largest size of each symbol, where other symbols do not decide them."""
        positions = self.numbers.symbols
        widest = (2, LARGEST_MEMORY)
        return {name: self.numbers.limits.get(at, widest) for name, at in positions.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, by `pickle` too, is issued anew, as that of `Certificate`."""
        return certified_for_all_sizes, (self.schedule,)

    def numbers_at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The numbers for sizes by symbol, at the positions of `numbers`.

        Sizes that a run measures are their bounds unless they are given, too. Raises
        NotForAllSizes or ScheduleError if they are not within the limits.
        """
        assert self.issued, "the schedule was not checked"
        sizes = {**self.measuring.most, **sizes}
        numbers = self.numbers.at(sizes)
        if all(low <= numbers[at] <= high for at, (low, high) in self.numbers.limits.items()):
            return numbers
        instance = self.schedule.at(sizes)  # the full check says what is wrong
        check_schedule(instance.schedule)
        check_operands(instance.schedule, instance.kernels)
        raise NotForAllSizes(
            f"the schedule is not proved for {dict(sizes)}: compile the model for these sizes"
        )


def certified_for_all_sizes(symbolic: SymbolicSchedule) -> SizesCertificate:
    """The certificate of a schedule.

    Raises ScheduleError and KernelError as `certified` does, and Undecided where the order of bytes
    is another for other sizes.
    """
    check_seals(symbolic.kernels)
    for task in symbolic.schedule.tasks:
        _check_sizes_read(symbolic, task)
    with assuming_nothing():
        schedule, kernels = symbolic.bound
        check_operands(schedule, kernels)
        measuring = measuring_of(symbolic)
        ranked = _schedule_of_ranks(symbolic)
        check_schedule(ranked.schedule)
        _check_shared_slots(symbolic, ranked)
        numbers = numbered(symbolic, _limits(symbolic))
        certificate = SizesCertificate(symbolic, numbers, measuring)
    object.__setattr__(certificate, "issued", True)  # a frozen field that no constructor sets
    return certificate


def _check_sizes_read(symbolic: SymbolicSchedule, task: Task) -> None:
    """Raise ScheduleError unless a task passes its kernel a size for each of its symbols."""
    kernel = symbolic.kernels.get(task.kernel)
    if kernel is None:
        raise ScheduleError(f"a task launches '{task.kernel}', which does not exist")
    names = symbolic.sizes_of(task)
    if len(names) != len(kernel.symbols):
        raise ScheduleError(
            f"the kernel '{kernel.name}' reads the sizes of {len(kernel.symbols)} symbols, a task"
            f" passes those of {list(names)}: compile the model again"
        )


def _limits(symbolic: SymbolicSchedule) -> dict[Extent, tuple[int, int]]:
    """The least and the largest number that is valid for an extent."""
    limits: dict[Extent, tuple[int, int]] = {}

    def limit(extent: Extent, low: int, high: int) -> None:
        present = limits.get(extent, (low, high))
        limits[extent] = max(low, present[0]), min(high, present[1])

    for symbol in symbolic.symbols.values():
        limit(extent_of(symbol), symbol.low, LARGEST_MEMORY if symbol.high is None else symbol.high)
    schedule, kernels = symbolic.bound
    for task, bound in zip(symbolic.schedule.tasks, schedule.tasks, strict=True):
        names = symbolic.sizes_of(task)
        for name, symbol in zip(names, symbolic.kernels[task.kernel].symbols, strict=True):
            high = LARGEST_MEMORY if symbol.high is None else symbol.high
            limit(extent_of(symbolic.symbols[name]), symbol.low, high)
        for count in kernels[bound.kernel].element_counts if names else ():
            limit(count, 0, LARGEST_COUNT)
        for launch in kernels[bound.kernel].launches if names else ():
            # there may be nothing to do for what is measured to have no elements
            measured = any(symbol.measured for symbol in symbols_of(launch.grid[0]))
            limit(launch.grid[0], 0 if measured else 1, LARGEST_GRID)
            for side in launch.grid[1:]:
                limit(side, 1, LARGEST_SIDE)
    for allocation in symbolic.schedule.allocations:
        if allocation.kind != "arena":
            limit(allocation.nbytes, 0, LARGEST_MEMORY)
    limit(extent_of(ARENA), 0, LARGEST_MEMORY)
    return limits


@dataclass(frozen=True)
class _Ranked:
    """A schedule of ranks, in whose arena slots follow each other from these `starts` on."""

    schedule: Schedule
    starts: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Span:
    """Bytes [begin, end) of an allocation, or of a slot, numbered after the allocations."""

    memory: int
    begin: Extent
    end: Extent


def _schedule_of_ranks(symbolic: SymbolicSchedule) -> _Ranked:
    count = len(symbolic.schedule.allocations)
    views = {
        id(view): view
        for task in symbolic.schedule.tasks
        for view in (*task.reads, *task.writes)
        if 0 <= view.allocation < count  # the check of ranks names others
    }
    slots = {slot.offset: count + number for number, slot in enumerate(symbolic.slots)}
    spans = {number: _span(symbolic.schedule, view, slots) for number, view in views.items()}
    sizes = [0 if a.kind == "arena" else a.nbytes for a in symbolic.schedule.allocations]
    sizes += [slot.nbytes for slot in symbolic.slots]
    ends: list[list[Extent]] = [[0, size] for size in sizes]
    for span in spans.values():
        ends[span.memory] += (span.begin, span.end)
    ranks = [*map(_ranks, ends)]
    tops = [*accumulate((ranks[n][plain(sizes[n])] for n in range(count, len(sizes))), initial=0)]

    def ranked(view: View) -> View:
        span = spans.get(id(view))
        if span is None:
            return view
        begin, end = (ranks[span.memory][plain(end)] for end in (span.begin, span.end))
        start = tops[span.memory - count] if span.memory >= count else 0
        size = (end - begin) // ELEMENT_BYTES[view.dtype]
        return View(view.allocation, start + begin, view.dtype, (size,))

    allocations = [
        replace(a, shape=(tops[-1] if a.kind == "arena" else _elements(a, ranks[n], sizes[n]),))
        for n, a in enumerate(symbolic.schedule.allocations)
    ]
    tasks = [
        replace(task, reads=tuple(map(ranked, task.reads)), writes=tuple(map(ranked, task.writes)))
        for task in symbolic.schedule.tasks
    ]
    return _Ranked(
        replace(symbolic.schedule, allocations=tuple(allocations), tasks=tuple(tasks)), tops
    )


def _elements(allocation: Allocation, ranks: Ranks, size: Extent) -> int:
    return ranks[plain(size)] // ELEMENT_BYTES[allocation.dtype]


def _span(schedule: Schedule, view: View, slots: Mapping[Symbol, int]) -> _Span:
    """The bytes of a view; raises ScheduleError for one of the arena that is in no slot."""
    offset = view.offset
    memory = view.allocation
    arena = schedule.allocations[memory].kind == "arena"
    within = [symbol for symbol in symbols_of(offset) if symbol in slots]
    if arena and within:
        memory = slots[within[0]]
        offset = offset - extent_of(within[0])
    if symbols_of(offset) & slots.keys() or (arena and not within and view.nbytes):
        name = schedule.allocations[view.allocation].name
        raise ScheduleError(f"a view of '{name}' at {view.offset} is in no slot")
    if not divides(ELEMENT_BYTES[view.dtype], offset):
        raise ScheduleError(f"a {view.dtype} at {view.offset} is not aligned for all sizes")
    return _Span(memory, offset, offset + view.nbytes)


def _ranks(ends: Sequence[Extent]) -> Ranks:
    """Numbers that order the ends as all sizes do; the rank of 0 is 0.

    They are the ends themselves if these are numbers.
    """
    distinct = [*dict.fromkeys(map(plain, ends))]
    if not has_symbols(distinct):
        return {end: end for end in distinct}
    ordered: list[Extent] = []
    for end in sorted(distinct, key=at_hints):
        index = len(ordered)
        while index and not _is_beyond(end, ordered[index - 1]):
            index -= 1  # of two that are equal for the example sizes, the one that is less
            if not _is_beyond(ordered[index], end):
                raise Undecided(f"{end} and {ordered[index]} change their order with the sizes")
        ordered.insert(index, end)
    first = ordered.index(0)
    return {end: GRAIN * (number - first) for number, end in enumerate(ordered)}


def _is_beyond(end: Extent, lower: Extent) -> bool:
    """Whether an end is provably at least another one for all sizes."""
    return at_least_zero(end - lower) is True or same_extents((end,), (arena_aligned(lower),))


def _check_shared_slots(symbolic: SymbolicSchedule, ranked: _Ranked) -> None:
    """Raise ScheduleError for slots that may share bytes while both are in use."""
    arenas = [i for i, a in enumerate(symbolic.schedule.allocations) if a.kind == "arena"]
    if not symbolic.slots:
        return
    lives = lifetimes(ranked.schedule, arenas[0], HappensBefore(ranked.schedule))
    regions = [bisect_right(ranked.starts, begin) - 1 for begin in lives.begins]
    reached: list[int] = []
    """For each slot the bits of all slots below it, directly or not."""
    for number, slot in enumerate(symbolic.slots):
        if any(not 0 <= lower < number for lower in slot.below):
            raise ScheduleError(f"slot {number} of the arena is above a later one")
        if not divides(ARENA_ALIGNMENT, slot.nbytes):
            raise ScheduleError(f"slot {number} of the arena has {slot.nbytes} bytes")
        bits = 0
        for lower in slot.below:
            bits |= reached[lower] | 1 << lower
        reached.append(bits)
    for region, slot in enumerate(regions):
        sharing = [
            earlier
            for earlier, below in enumerate(regions[:region])
            if below != slot and not (reached[slot] >> below | reached[below] >> slot) & 1
        ]
        if sharing and not (disjoint := lives.apart(region, sharing)).all():
            earlier = regions[sharing[int(disjoint.argmin())]]
            raise ScheduleError(
                f"slots {earlier} and {slot} of the arena may share bytes for some sizes, and both"
                " are in use at once"
            )
