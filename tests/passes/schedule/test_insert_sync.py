"""After insert-sync a schedule is valid, and hostile executions compute the same bits."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from compiler.ir.context import parse_module
from compiler.ir.flatten import schedule_of
from compiler.passes.schedule.insert_sync import InsertSync
from compiler.verify.happens_before import check_schedule, find_race
from tests.adversary import agrees, in_order, shuffled, threaded
from tests.grouped import Scheduled, scheduled, synchronise, taskflow_of
from tests.networks import networks, scheduled_network
from tests.schedules import races


@settings(max_examples=60, deadline=None)
@given(scheduled() | networks(), st.integers(0, 2**32))
def test_schedules_verify_and_survive_the_adversary(case: Scheduled, seed: int):
    schedule = synchronise(case, elide=False)
    case.module.verify()
    check_schedule(schedule)
    assert not races(schedule)
    reference = in_order(schedule, case.data)
    for hold in (None, 0, len(schedule.tasks) - 1):
        assert agrees(shuffled(schedule, case.data, seed, hold), reference)


@settings(max_examples=10, deadline=None)
@given(networks(max_count=12), st.integers(0, 2**32))
def test_threads_with_random_delays_compute_the_interpreter_s_bits(case: Scheduled, seed: int):
    schedule = synchronise(case, reuse=True)
    run = threaded(schedule, case.data, seed, case.kernel)
    assert not run.disturbed
    assert run.outputs == {name: array.tobytes() for name, array in case.reference.items()}


@settings(max_examples=30, deadline=None)
@given(networks())
def test_idempotent_and_round_trip(case: Scheduled):
    schedule = synchronise(case, elide=False)
    text = str(case.module)
    InsertSync().apply(Context(), case.module)
    assert str(case.module) == text
    assert schedule_of(taskflow_of(parse_module(text))) == schedule


def test_the_adversary_catches_what_lacks_every_token():
    caught = 0
    for number in range(30):
        case = scheduled_network(random.Random(number), 12, 4, 4)
        schedule = case.schedule()
        if (race := find_race(schedule)) is not None:
            reference, hold = in_order(schedule, case.data), race.conflict.earlier
            runs = (shuffled(schedule, case.data, seed, hold) for seed in range(5))
            assert not all(agrees(run, reference) for run in runs)
            caught += 1
    assert caught > 15
