"""Schedules that compute the same, by symbols, against running them on bytes."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import ScheduleError
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.verify.equivalence import check_equivalent
from compiler.verify.happens_before import check_schedule
from tests.adversary import in_order
from tests.grouped import Scheduled, synchronise
from tests.networks import networks


@settings(max_examples=40, deadline=None)
@given(networks(), st.booleans())
def test_memory_and_order_do_not_matter(case: Scheduled, elide: bool):
    first = synchronise(case, elide)
    packed = synchronise(case, elide, reuse=True)
    check_equivalent(packed, first)
    check_equivalent(first, packed)


@settings(max_examples=150, deadline=None)
@given(networks(10), st.integers(0, 2**32))
def test_what_is_accepted_gives_the_same_bytes(case: Scheduled, seed: int):
    """Mutations of reads, writes and order: each is rejected, or gives the outputs' bytes."""
    right, chances = synchronise(case, reuse=True), Random(seed)
    wrong = mutated(right, chances)
    try:
        check_schedule(wrong)
        check_equivalent(wrong, right)
    except ScheduleError:
        return
    assert in_order(wrong, case.data).outputs == in_order(right, case.data).outputs


def mutated(schedule: Schedule, chances: Random) -> Schedule:
    """The schedule with two tasks exchanged, a task dropped, or a read taken from elsewhere."""
    tasks = list(schedule.tasks)
    if not tasks:
        return schedule
    one, other = chances.randrange(len(tasks)), chances.randrange(len(tasks))
    match chances.randrange(3):
        case 0:
            tasks[one], tasks[other] = tasks[other], tasks[one]
        case 1:
            del tasks[one]
        case _:
            reads = list(tasks[one].reads)
            if reads and tasks[other].reads:
                reads[0] = chances.choice(tasks[other].reads)
            tasks[one] = replace(tasks[one], reads=tuple(reads))
    tasks = [replace(t, subflow=None, after=tuple(range(i))) for i, t in enumerate(tasks)]
    return replace(schedule, tasks=tuple(tasks))


X, Y, ARENA = (
    Allocation("input", "x", "int32", (4,)),
    Allocation("output", "y", "int32", (4,)),
    Allocation("arena", "arena", "uint8", (64,)),
)


def task(kernel: str, read: View, write: View) -> Task:
    return Task(kernel, 0, (), (read,), (write,))


IN, OUT, MID = (View(number, 0, "int32", (4,)) for number in range(3))
RIGHT = Schedule("s", (X, Y, ARENA), (task("A", IN, MID), task("B", MID, OUT)))


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ((task("A", IN, MID), task("C", MID, OUT)), "task 1 'C' .* is not one of the model's"),
        ((task("A", IN, MID), task("B", IN, OUT)), "task 1 'B' .* is not one of the model's"),
        ((task("A", IN, OUT),), "output 'y' would not hold what the model computes"),
        ((task("A", IN, MID), task("B", MID, OUT), task("A", IN, OUT)), "output 'y' would not"),
    ],
)
def test_what_differs_is_named(tasks: tuple[Task, ...], message: str):
    with pytest.raises(ScheduleError, match=message):
        check_equivalent(replace(RIGHT, tasks=tasks), RIGHT)


def test_a_task_may_be_repeated_and_memory_moved():
    moved = View(2, 32, "int32", (4,))
    tasks = (task("A", IN, MID), task("A", IN, moved), task("B", moved, OUT))
    check_equivalent(replace(RIGHT, tasks=tasks), RIGHT)


def test_the_halves_of_a_value_differ():
    """B reads the second half of what A wrote; the first is another value."""
    half = [View(2, offset, "int32", (2,)) for offset in (0, 8)]
    right = replace(RIGHT, tasks=(task("A", IN, MID), task("B", half[1], OUT)))
    with pytest.raises(ScheduleError, match="task 1 'B'"):
        check_equivalent(replace(right, tasks=(task("A", IN, MID), task("B", half[0], OUT))), right)


def test_pieces_of_a_value_are_told_apart():
    """Two halves written by two tasks, in the right places and exchanged."""
    half = [View(2, offset, "int32", (2,)) for offset in (0, 8)]
    tasks = (task("A", IN, half[0]), task("C", IN, half[1]), task("B", MID, OUT))
    right = replace(RIGHT, tasks=tasks)
    check_equivalent(right, right)
    swapped = (task("A", IN, half[1]), task("C", IN, half[0]), task("B", MID, OUT))
    with pytest.raises(ScheduleError, match="task 2 'B'"):
        check_equivalent(replace(right, tasks=swapped), right)
