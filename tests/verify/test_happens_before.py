"""The verifier agrees with a brute-force check, and says precisely what is wrong."""

from dataclasses import replace

import pytest
from hypothesis import event, given, settings

from compiler.errors import ScheduleError
from compiler.schedule.tasks import IN_RANGE, Allocation, Schedule, Task, View
from compiler.verify.happens_before import HappensBefore, check_schedule, find_race
from tests.schedules import closure, races, reads_unwritten, schedules


@settings(max_examples=300, deadline=None)
@given(schedules())
def test_races_are_those_of_closure_and_byte_overlap(schedule: Schedule):
    expected, race = races(schedule), find_race(schedule)
    event(f"race: {race is not None}")
    assert (race is None) == (not expected)
    if race is not None:
        pair = race.conflict
        overlap = {(pair.allocation, byte) for byte in range(pair.begin, pair.end)}
        assert overlap
        assert overlap <= expected[pair.earlier, pair.later]


@settings(max_examples=200, deadline=None)
@given(schedules())
def test_order_is_the_transitive_closure(schedule: Schedule):
    before, order = closure(schedule), HappensBefore(schedule)
    for b in range(len(schedule.tasks)):
        assert {a for a in range(len(schedule.tasks)) if order.ordered(a, b)} == before[b]


@settings(max_examples=300, deadline=None)
@given(schedules(max_tasks=5))
def test_a_schedule_passes_if_and_only_if_nothing_is_wrong(schedule: Schedule):
    wrong = bool(races(schedule)) or reads_unwritten(schedule)
    event(f"wrong: {wrong}")
    if wrong:
        with pytest.raises(ScheduleError):
            check_schedule(schedule)
    else:
        check_schedule(schedule)


ALLOCATIONS = (
    Allocation("input", "x", "float32", (4,)),
    Allocation("output", "y", "float32", (4,)),
    Allocation("arena", "arena", "uint8", (64,)),
)
X, Y, A = (View(i, 0, "float32", (4,)) for i in range(3))
WORDS = View(2, 8, "int64", (1,))
FIRST = Task("Relu_1", 0, (), (X,), (A,), nodes=("relu", "more"))
SECOND = Task("Add_2", 1, (0,), (A,), (Y,))


def error(*tasks: Task) -> str:
    with pytest.raises(ScheduleError) as caught:
        check_schedule(Schedule("main", ALLOCATIONS, tasks))
    return str(caught.value)


def test_a_valid_schedule_passes():
    check_schedule(Schedule("main", ALLOCATIONS, (FIRST, SECOND)))
    assert "nothing orders them" in error(FIRST, replace(SECOND, after=()))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (Allocation("input", "x", "bool", (1,)), "has 2 inputs of the name 'x'"),
        (Allocation("output", "y", "float32", (4,)), "has 2 outputs of the name 'y'"),
        (Allocation("output", f"{IN_RANGE}i", "int32", (2,)), "is not one number"),
        (Allocation("arena", "", "uint8", (2**63,)), "more than there can be"),
    ],
)
def test_memory_is_identified_by_its_name(more: Allocation, message: str):
    with pytest.raises(ScheduleError, match=message):
        check_schedule(Schedule("main", (*ALLOCATIONS, more), (FIRST, SECOND)))


def test_an_output_may_have_the_name_of_an_input():
    named = tuple(replace(a, name="x") if a.kind == "output" else a for a in ALLOCATIONS)
    check_schedule(Schedule("main", named, (FIRST, SECOND)))


def test_a_race_names_both_tasks_the_bytes_and_the_missing_order():
    assert error(FIRST, replace(SECOND, after=())) == (
        "race: task 1 'Add_2' (stream 1) reads bytes [0, 16) of the arena, which task 0 'Relu_1'"
        " (nodes relu, more; stream 0) writes, but nothing orders them: neither streams nor tokens"
        " make task 1 wait for task 0"
    )


def test_only_the_bytes_that_overlap_are_named():
    partial = replace(SECOND, after=(), reads=(View(2, 8, "float32", (2,)),))
    assert "bytes [8, 16) of the arena" in error(FIRST, partial)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ((replace(FIRST, writes=(X,)), SECOND), "writes bytes [0, 16) of input 'x'"),
        ((SECOND,), "waits for task 0, which is not an earlier task"),
        ((replace(SECOND, after=()),), "reads bytes [0, 16) of the arena before any task writes"),
        ((FIRST,), "bytes [0, 16) of output 'y' are never written"),
        (
            (replace(FIRST, reads=(View(0, 8, "float32", (4,)),)),),
            "[8, 24) of input 'x'",
        ),
        ((replace(FIRST, reads=(View(0, 2, "float32", (1,)),)),), "is not aligned"),
        ((replace(FIRST, reads=(View(9, 0, "float32", (4,)),)),), "uses allocation 9; there are 3"),
        ((replace(FIRST, reads=(X, A)),), "before any task writes"),
        ((FIRST, replace(SECOND, writes=(Y, A))), "which it also read"),
        ((replace(FIRST, stream=-1),), "is on stream -1; there are"),
        ((replace(FIRST, stream=2**31),), "is on stream 2147483648; there are"),
        (
            (replace(FIRST, reads=(View(0, 0, "int32", (4,)),)),),
            "uses the input 'x' of float32 as int32",
        ),
        (
            (FIRST, replace(SECOND, reads=(View(2, 0, "int32", (4,)),))),
            "task 1 'Add_2' (stream 1) reads bytes [0, 16) of the arena as int32, which task 0"
            " 'Relu_1' (nodes relu, more; stream 0) writes as float32",
        ),
        (
            (FIRST, replace(FIRST, writes=(WORDS,)), replace(SECOND, reads=(A,), after=(1,))),
            "reads bytes [8, 16) of the arena as float32, which task 1",
        ),
        (
            (replace(FIRST, subflow=3), replace(SECOND, subflow=3)),
            "on another stream than",
        ),
        (
            (replace(FIRST, subflow=3), SECOND, replace(SECOND, subflow=3)),
            "is apart from the rest of its subflow 3",
        ),
        (
            (replace(FIRST, subflow=3), replace(SECOND, subflow=3, stream=0)),
            "waits in the middle of its subflow 3",
        ),
        (
            (replace(FIRST, subflow=3), replace(FIRST, subflow=3, reads=()), SECOND),
            "waits for task 0, not the end of its subflow",
        ),
    ],
)
def test_each_fault_has_its_message(tasks: tuple[Task, ...], message: str):
    assert message in error(*tasks)


def test_bytes_may_be_another_type_once_that_is_written():
    again = replace(SECOND, reads=(View(2, 8, "int64", (1,)),), after=(1,))
    check_schedule(Schedule("main", ALLOCATIONS, (FIRST, replace(FIRST, writes=(WORDS,)), again)))
