"""An arena in slots holds its tensors apart for all sizes, not for the example sizes alone."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.errors import ScheduleError
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.symbolic import SymbolicSchedule, with_numbers
from compiler.schedule.tasks import Allocation, Schedule, Task, View, arena_aligned
from compiler.tensors.extents import (
    Extent,
    Symbol,
    Undecided,
    at_hints,
    extent_of,
)
from compiler.verify.happens_before import HappensBefore, check_schedule
from compiler.verify.memory import plan_arena
from compiler.verify.slots import in_slots

BATCH, LENGTH = Symbol("batch", 2, hint=4), Symbol("length", 2, hint=64)
N, L = extent_of(BATCH), extent_of(LENGTH)
SHAPES: tuple[tuple[Extent, ...], ...] = (
    (N, L, 16),
    (N, L, L),
    (L // 2, 3),
    (7, N),
    (300,),
    (N + 1, 5),
)
SIZES = st.fixed_dictionaries({"batch": st.integers(2, 50), "length": st.integers(2, 300)})


def schedule_of(random: Random, count: int) -> Schedule:
    """Tasks that each write a tensor of the arena and read earlier ones, with all their tokens."""
    views: list[View] = []
    offset: Extent = 0
    for _ in range(count):
        view = View(1, offset, "float32", random.choice(SHAPES))
        offset += arena_aligned(view.nbytes)
        views.append(view)
    tasks: list[Task] = []
    for number, view in enumerate(views):
        read = sorted(random.sample(range(number), min(number, random.randint(0, 3))))
        reads = tuple(views[i] for i in read)
        tasks.append(Task(f"kernel{number}", random.randrange(3), tuple(read), reads, (view,)))
    last = View(0, 0, "float32", (1,))
    tasks.append(Task("last", 0, tuple(range(count)), (views[-1],), (last,)))
    allocations = (
        Allocation("output", "y", "float32", (1,)),
        Allocation("arena", "arena", "uint8", (offset,)),
    )
    return Schedule("random", allocations, tuple(tasks))


def symbolic(schedule: Schedule) -> SymbolicSchedule:
    """The schedule in slots, with kernels without code."""
    planned, slots = in_slots(schedule)
    kernels = {t.kernel: KernelSpec(t.kernel, "object", b"", (), ()) for t in schedule.tasks}
    return SymbolicSchedule(planned, kernels, slots=slots)


@given(st.integers(), st.integers(1, 24), SIZES)
def test_slots_are_disjoint_for_all_sizes(seed: int, count: int, sizes: dict[str, int]) -> None:
    schedule = schedule_of(Random(seed), count)
    check_schedule(symbolic(schedule).at(sizes).schedule)


@given(st.integers(), st.integers(1, 24))
def test_the_example_sizes_need_no_more_than_their_own_plan(seed: int, count: int) -> None:
    schedule = schedule_of(Random(seed), count)
    sizes = {symbol.name: symbol.hint for symbol in (BATCH, LENGTH)}
    arena = symbolic(schedule).at(sizes).schedule.allocations[1]
    example = with_numbers(schedule, at_hints, at_hints(schedule.allocations[1].shape[0]))
    assert arena.nbytes <= plan_arena(example, 1, HappensBefore(example)).size


def test_a_slot_that_forgets_what_lies_below_it_is_a_race() -> None:
    """In most schedules: at the bottom it may by chance share bytes only with tensors it may."""
    races = 0
    for seed in range(20):
        own = symbolic(schedule_of(Random(seed), 8))
        number = max(i for i, slot in enumerate(own.slots) if slot.below)
        slots = [*own.slots]
        slots[number] = replace(slots[number], below=())
        try:
            check_schedule(replace(own, slots=tuple(slots)).at({"batch": 3, "length": 5}).schedule)
        except ScheduleError:
            races += 1
    assert races > 15


def test_views_keep_their_distance_in_a_tensor() -> None:
    """Two halves, which one task writes each, of a tensor that another reads whole."""
    whole = View(1, 0, "float32", (2 * L,))
    halves = (View(1, 0, "float32", (L,)), View(1, 4 * L, "float32", (L,)))
    tasks = (
        *(Task(f"half{i}", i, (), (), (half,)) for i, half in enumerate(halves)),
        Task("read", 0, (0, 1), (whole,), (View(0, 0, "float32", (1,)),)),
    )
    allocations = (
        Allocation("output", "y", "float32", (1,)),
        Allocation("arena", "arena", "uint8", (arena_aligned(8 * L),)),
    )
    own = symbolic(Schedule("halves", allocations, tasks)).at({"length": 5}).schedule
    check_schedule(own)
    assert own.tasks[1].writes[0].offset - own.tasks[0].writes[0].offset == 20


def test_tensors_that_other_sizes_tie_are_undecided() -> None:
    """A tensor without elements at the example sizes may have some for others."""
    empty = View(1, 0, "float32", (L - LENGTH.hint,))
    task = Task("write", 0, (), (), (empty, View(1, 64, "float32", (8,))))
    allocations = (
        Allocation("output", "y", "float32", (0,)),
        Allocation("arena", "arena", "uint8", (64 + 4 * L,)),
    )
    with pytest.raises(Undecided, match="none at the example sizes"):
        in_slots(Schedule("empty", allocations, (task,)))
