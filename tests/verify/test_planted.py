"""Schedules with a wait too few, within a body or at its border: two judges refuse each of them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings

from compiler.errors import ScheduleError
from compiler.schedule.tasks import Allocation, Control, ControlForm, Schedule, Task, View
from compiler.verify.happens_before import check_schedule
from tests.controlled import controlled_schedules, unrolled

UNROLLINGS = 40


def is_refused(schedule: Schedule) -> bool:
    """Whether the verifier refuses a schedule."""
    try:
        check_schedule(schedule)
    except ScheduleError:
        return True
    return False


def has_fault(schedule: Schedule) -> bool:
    """Whether an unrolling of a schedule has a race, or reads bytes that nothing wrote."""
    found = (unrolled(schedule, seed, whole=True) for seed in range(UNROLLINGS))
    return any(run.races or run.unwritten for run in found)


def without_a_wait(schedule: Schedule, depth: int = 0) -> Iterator[tuple[str, Schedule]]:
    """A schedule without each of its waits, and where that was: within a body, at the border of a
    task with bodies, or between others."""
    tasks = schedule.tasks
    for index, task in enumerate(tasks):
        for wait in task.after:
            border = task.control is not None or tasks[wait].control is not None
            where = "border" if border else "within" if depth else "between"
            fewer = replace(task, after=tuple(w for w in task.after if w != wait))
            yield where, _with_task(schedule, index, fewer)
        for number, body in enumerate(task.control.bodies if task.control else ()):
            for where, other in without_a_wait(body, depth + 1):
                assert task.control is not None
                bodies = [*task.control.bodies]
                bodies[number] = other
                control = replace(task.control, bodies=tuple(bodies))
                yield where, _with_task(schedule, index, replace(task, control=control))


def _with_task(schedule: Schedule, index: int, task: Task) -> Schedule:
    tasks = [*schedule.tasks]
    tasks[index] = task
    return replace(schedule, tasks=tuple(tasks))


def with_needed_waits(schedule: Schedule) -> Schedule:
    """A valid schedule without the waits that the verifier does not need."""
    fewer = next((s for _, s in without_a_wait(schedule) if not is_refused(s)), None)
    return schedule if fewer is None else with_needed_waits(fewer)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(controlled_schedules().filter(lambda schedule: not is_refused(schedule)))
def test_every_wait_of_an_elided_schedule_is_needed(schedule: Schedule):
    needed = with_needed_waits(schedule)
    assert not has_fault(needed)
    for where, planted in without_a_wait(needed):
        event(where)
        assert has_fault(planted), where


NUMBER = ("int64", (1,))
STATE, NEXT, SPARE = (View(i, 0, *NUMBER) for i in (1, 2, 3))
BODY = Schedule(
    "body",
    (
        Allocation("input", "step", "int64", ()),
        Allocation("input", "state", *NUMBER),
        Allocation("output", "next", *NUMBER),
        Allocation("arena", "arena", "uint8", (8,)),
    ),
    (Task("Neg", 0, (), (STATE,), (SPARE,)), Task("Abs", 1, (0,), (SPARE,), (NEXT,))),
)
X, Y = View(0, 0, *NUMBER), View(1, 0, *NUMBER)
FIRST, LAST = (View(2, place, *NUMBER) for place in (0, 8))
SPACES = tuple(View(2, place, "uint8", (8,)) for place in (16, 24, 32))
LOOP = Control(ControlForm("loop", carried=1, length=2), (BODY,))
MAIN = Schedule(
    "main",
    (
        Allocation("input", "x", *NUMBER),
        Allocation("output", "y", *NUMBER),
        Allocation("arena", "arena", "uint8", (40,)),
    ),
    (
        Task("Relu", 0, (), (X,), (FIRST,)),
        Task("loop", 1, (0,), (FIRST,), (LAST, *SPACES), control=LOOP),
        Task("Exp", 0, (1,), (LAST,), (Y,)),
    ),
)
"""Each of its three waits is needed: into the loop, within it, and out of it."""


def test_the_intact_schedule_is_valid():
    assert not is_refused(MAIN)
    assert not has_fault(MAIN)


PLANTED = [*zip(("into the loop", "within it", "out of it"), without_a_wait(MAIN), strict=True)]


@pytest.mark.parametrize(
    ("where", "planted"),
    [(kind, other) for _, (kind, other) in PLANTED],
    ids=[n for n, _ in PLANTED],
)
def test_a_missing_wait_is_refused_by_the_verifier_and_the_unrollings(
    where: str, planted: Schedule
):
    assert has_fault(planted)
    message = "in 'body' of task 1 'loop'" if where == "within" else "race: task"
    with pytest.raises(ScheduleError, match=message):
        check_schedule(planted)
