"""An arena for all sizes: the order of its tensors, from a plan for example sizes.

Of two tensors that may live at once one is below the other in that plan, directly or through a
chain of others. A slot begins where the highest slot below it ends, and no size is negative: along
the chain each begins after the ends of all before it. So the two are disjoint for all sizes, and no
solver is needed.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from compiler.schedule.symbolic import ArenaSlot, with_numbers
from compiler.schedule.tasks import Schedule, Task, View, arena_aligned
from compiler.support.words import in_bytes
from compiler.tensors.arithmetic import maximum
from compiler.tensors.extents import (
    Extent,
    NotForAllSizes,
    Symbol,
    Undecided,
    at_hints,
    bounds,
    extent_of,
    symbols_of,
)
from compiler.tensors.substitution import substituted
from compiler.verify.happens_before import HappensBefore
from compiler.verify.memory import Lifetimes, lifetimes, packed_offsets

MOST_MEASURED_BYTES = 1 << 28
"""Most bytes of the tensors of an arena whose sizes data decide: it has room for their bounds."""


def in_slots(schedule: Schedule) -> tuple[Schedule, tuple[ArenaSlot, ...]]:
    """A schedule with the tensors of its arena in slots; they were disjoint without them.

    Raises Undecided where other sizes may tie together tensors which the example sizes do not, and
    NotForAllSizes where what a run measures may have too many bytes.
    """
    arenas = [i for i, memory in enumerate(schedule.allocations) if memory.kind == "arena"]
    if not arenas:
        return schedule, ()
    (arena,) = arenas
    size = at_hints(schedule.allocations[arena].shape[0])
    example = with_numbers(schedule, at_hints, size)
    lives = lifetimes(example, arena, HappensBefore(example))
    offsets = packed_offsets(lives)
    symbols = [Symbol(f"slot {region}", hint=offset) for region, offset in enumerate(offsets)]
    views = {
        id(view): view
        for task in schedule.tasks
        for view in (*task.reads, *task.writes)
        if view.allocation == arena
    }
    begins, sizes = _regions([*views.values()], lives)
    moved: dict[int, View] = {}
    for number, view in views.items():
        region = _region(lives, view)
        offset = 0  # of a tensor without bytes for any size, which is in no region
        if at_hints(view.nbytes):
            offset = extent_of(symbols[region]) + view.offset - begins[region]
        moved[number] = replace(view, offset=offset)
    slots = _stacked(lives, offsets, symbols, sizes)
    tasks = tuple(_with_views(task, moved) for task in schedule.tasks)
    return replace(schedule, tasks=tasks), slots


def _region(lives: Lifetimes, view: View) -> int:
    """The region of a view at the example sizes."""
    return bisect_right(lives.begins, at_hints(view.offset)) - 1


def _regions(views: Sequence[View], lives: Lifetimes) -> tuple[list[Extent], list[Extent]]:
    """Where each region begins, and its bytes, for all sizes."""
    members: list[list[View]] = [[] for _ in lives.begins]
    for view in views:
        if at_hints(view.nbytes):
            members[_region(lives, view)].append(view)
        elif bounds(view.nbytes) != (0, 0):
            raise Undecided(f"a tensor of {view.shape} elements has none at the example sizes")
    begins: list[Extent] = []
    sizes: list[Extent] = []
    for begin, group in zip(lives.begins, members, strict=True):
        first = next(view.offset for view in group if at_hints(view.offset) == begin)
        for view in group:
            if bounds(view.offset - first)[0] < 0:
                raise Undecided(f"{view.offset} and {first} change their order with the sizes")
        begins.append(first)
        ends = (view.offset - first + view.nbytes for view in group)
        sizes.append(arena_aligned(maximum(*ends)))
    return begins, _at_most_measured(sizes)


def _at_most_measured(sizes: Sequence[Extent]) -> list[Extent]:
    """Bytes of regions at the bounds of what a run measures, which are known before that is.

    Raises NotForAllSizes if that takes too much memory.
    """
    total = 0
    known: list[Extent] = []
    for size in sizes:
        measured = [symbol for symbol in symbols_of(size) if symbol.measured]
        total += at_hints(size) if measured else 0
        known.append(substituted(size, {symbol: symbol.hint for symbol in measured}))
    if total > MOST_MEASURED_BYTES:
        raise NotForAllSizes(f"tensors whose sizes data decide have up to {in_bytes(total)}")
    return known


def _stacked(
    lives: Lifetimes, offsets: Sequence[int], symbols: Sequence[Symbol], sizes: Sequence[Extent]
) -> tuple[ArenaSlot, ...]:
    """The slots by offset: each above those below it that may live with it, directly or not."""
    order = sorted(range(len(offsets)), key=lambda region: offsets[region])
    reached: list[int] = []
    """For each slot the bits of all slots below it, directly or not."""
    slots: list[ArenaSlot] = []
    for rank, region in enumerate(order):
        lower = order[:rank]
        disjoint = lives.apart(region, lower) if lower else ()
        below: list[int] = []
        reach = 0
        for position in reversed(range(rank)):
            if not disjoint[position] and not reach >> position & 1:
                below.append(position)
                reach |= reached[position] | 1 << position
        reached.append(reach)
        slots.append(ArenaSlot(symbols[region], sizes[region], tuple(reversed(below))))
    return tuple(slots)


def _with_views(task: Task, moved: dict[int, View]) -> Task:
    return replace(
        task,
        reads=tuple(moved.get(id(view), view) for view in task.reads),
        writes=tuple(moved.get(id(view), view) for view in task.writes),
    )
