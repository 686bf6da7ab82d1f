"""Tasks with bodies: the verifier agrees with unrolling them, and names what does not fit."""

from dataclasses import replace

import pytest
from hypothesis import event, given, settings

from compiler.errors import DeviceError, ScheduleError
from compiler.schedule.tasks import Allocation, Control, ControlForm, Schedule, Task, View
from compiler.verify.control import refuse_control
from compiler.verify.equivalence import check_equivalent
from compiler.verify.happens_before import check_schedule
from compiler.verify.schedule_json import from_json, to_json
from tests.controlled import controlled_schedules, unrolled

UNROLLINGS = 6


@settings(max_examples=150, deadline=None)
@given(controlled_schedules())
def test_what_passes_has_no_race_in_any_unrolling(schedule: Schedule):
    found = [unrolled(schedule, seed, whole=False) for seed in range(UNROLLINGS)]
    wrong = any(run.races or run.unwritten for run in found)
    event(f"wrong: {wrong}")
    if wrong:
        with pytest.raises(ScheduleError):
            check_schedule(schedule)


@settings(max_examples=60, deadline=None)
@given(controlled_schedules())
def test_what_is_refused_has_a_fault_if_a_task_may_touch_all_its_tensors(schedule: Schedule):
    found = [unrolled(schedule, seed, whole=True) for seed in range(10 * UNROLLINGS)]
    wrong = any(run.races or run.unwritten for run in found)
    event(f"wrong: {wrong}")
    if not wrong:
        check_schedule(schedule)


@settings(max_examples=100, deadline=None)
@given(controlled_schedules())
def test_text_round_trips(schedule: Schedule):
    assert from_json(to_json(schedule)) == schedule


ROW, ONE = View(0, 0, "float32", (2, 3)), View(1, 0, "float32", (3,))
BODY = Schedule(
    "body",
    (
        Allocation("input", "i", "int64", ()),
        Allocation("input", "state", "float32", (3,)),
        Allocation("input", "row", "float32", (3,)),
        Allocation("output", "next", "float32", (3,)),
    ),
    (Task("Add", 0, (), (View(1, 0, "float32", (3,)), View(2, 0, "float32", (3,))),
          (View(3, 0, "float32", (3,)),)),),
)  # fmt: skip
WEIGHT = Allocation("weight", "w", "bool", ())
SCAN = Task(
    "loop", 0, (), (ONE, ROW),
    (View(2, 0, "float32", (3,)), View(3, 0, "uint8", (8,)), View(3, 8, "uint8", (12,))),
    control=Control(ControlForm("loop", carried=1, length=2, scans=(False,)), (BODY,)),
)  # fmt: skip
MAIN = Schedule(
    "main",
    (
        Allocation("input", "rows", "float32", (2, 3)),
        Allocation("input", "first", "float32", (3,)),
        Allocation("output", "last", "float32", (3,)),
        Allocation("arena", "arena", "uint8", (64,)),
    ),
    (SCAN,),
)


def with_scan(task: Task) -> Schedule:
    return replace(MAIN, tasks=(task,))


def with_body(body: Schedule) -> Schedule:
    assert SCAN.control is not None
    return with_scan(replace(SCAN, control=replace(SCAN.control, bodies=(body,))))


def with_form(**changes: object) -> Schedule:
    control = SCAN.control
    assert control is not None
    form = replace(control.form, **changes)  # pyright: ignore[reportArgumentType]
    return with_scan(replace(SCAN, control=replace(control, form=form)))


def test_a_scan_is_valid_and_equals_itself():
    check_schedule(MAIN)
    check_equivalent(MAIN, MAIN)


ADD = BODY.tasks[0]
NEST = replace(SCAN.writes[0], allocation=2)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (with_form(length=3), "has 3 iterations, but not the rows of float32[2, 3]"),
        (with_form(carried=0), "2 iterations, but not the rows of float32[3]"),
        (with_form(conditional=True), "known length that is negative, or with a condition"),
        (with_form(length=None), "reads 2 tensors, too few"),
        (with_form(kind="if"), "has 1 bodies instead of 2"),
        (with_scan(replace(SCAN, reads=(ONE,))), "reads 1 tensors, too few"),
        (with_scan(replace(SCAN, reads=(ROW, ROW))), "carries float32[2, 3] on as float32[3]"),
        (
            with_scan(replace(SCAN, writes=SCAN.writes[:2])),
            "has workspaces of [8] bytes instead of [8, 12]",
        ),
        (
            with_scan(replace(SCAN, writes=(*SCAN.writes[:2], View(3, 9, "uint8", (12,))))),
            "a workspace that is not aligned to 8 bytes",
        ),
        (
            with_scan(replace(SCAN, writes=(*SCAN.writes[:2], View(3, 0, "uint8", (12,))))),
            "writes bytes [0, 8) of the arena, which it also writes",
        ),
        (
            with_body(replace(BODY, allocations=BODY.allocations[1:])),
            "has a body with 2 inputs instead of 3",
        ),
        (
            with_body(
                replace(
                    BODY, allocations=(*BODY.allocations, Allocation("weight", "w", "bool", ()))
                )
            ),
            "has a body with the memory input, input, input, output, weight",
        ),
        (with_body(replace(BODY, tasks=())), "'next' are never written"),
        (
            with_body(replace(BODY, tasks=(ADD, replace(ADD, stream=1)))),
            "in 'body' of task 0 'loop' (stream 0): race: task 1 'Add'",
        ),
    ],
)
def test_each_fault_has_its_message(schedule: Schedule, message: str):
    with pytest.raises(ScheduleError) as caught:
        check_schedule(schedule)
    assert message in str(caught.value)


def test_another_body_is_not_equivalent():
    swapped = replace(ADD, reads=ADD.reads[::-1])
    with pytest.raises(ScheduleError, match="is not one of the model's"):
        check_equivalent(with_body(replace(BODY, tasks=(swapped,))), MAIN)
    elsewhere = replace(ADD, stream=3)
    check_equivalent(with_body(replace(BODY, tasks=(elsewhere,))), MAIN)
    renamed = [replace(a, name=f"other{i}") for i, a in enumerate(BODY.allocations)]
    check_equivalent(with_body(replace(BODY, allocations=tuple(renamed))), MAIN)


def test_nesting_has_a_bound():
    empty, schedule = Schedule("leaf", (Allocation("input", "c", "bool", ()),), ()), None
    for _ in range(70):
        inner = empty if schedule is None else schedule
        condition = View(0, 0, "bool", ())
        control = Control(ControlForm("if"), (inner, inner))
        task = Task("if", 0, (), (condition, condition), (), control=control)
        schedule = replace(empty, tasks=(task,))
    assert schedule is not None
    with pytest.raises(ScheduleError, match="is nested more than 64 deep"):
        check_schedule(schedule)


def test_gpus_and_projects_refuse_it_by_name():
    with pytest.raises(
        DeviceError, match=r"task 0 is a loop \(no node\), which a GPU cannot run: do not"
    ):
        refuse_control(MAIN, "a GPU", "do not")
    refuse_control(BODY, "a GPU", "do not")
