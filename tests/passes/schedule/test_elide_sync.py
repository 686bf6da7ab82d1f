"""Elision keeps the order of tasks and leaves no token that could be spared."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from compiler.errors import ScheduleError
from compiler.passes.schedule.elide_sync import ElideSync
from compiler.schedule.tasks import Schedule
from compiler.verify.happens_before import check_schedule, find_race
from tests.adversary import agrees, in_order, shuffled
from tests.grouped import Scheduled, synchronise
from tests.networks import networks
from tests.schedules import closure


def without_one_token(schedule: Schedule) -> Iterator[tuple[int, int, Schedule]]:
    """Every (awaited task, waiting task) and the schedule without that token."""
    for index, task in enumerate(schedule.tasks):
        for awaited in task.after:
            fewer = replace(task, after=tuple(w for w in task.after if w != awaited))
            tasks = (*schedule.tasks[:index], fewer, *schedule.tasks[index + 1 :])
            yield awaited, index, replace(schedule, tasks=tasks)


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(0, 2**32))
def test_order_is_kept_and_results_too(case: Scheduled, seed: int):
    before = closure(synchronise(case, elide=False))
    ElideSync().apply(Context(), case.module)
    case.module.verify()
    schedule = case.schedule()
    assert closure(schedule) == before
    check_schedule(schedule)
    assert agrees(shuffled(schedule, case.data, seed), in_order(schedule, case.data))


@pytest.mark.parametrize("reuse", [False, True])
def test_every_token_left_is_needed(reuse: bool):
    dropped = 0

    @settings(max_examples=60, deadline=None)
    @given(networks())
    def check(case: Scheduled):
        nonlocal dropped
        schedule = synchronise(case, reuse=reuse)
        reference = in_order(schedule, case.data)
        for awaited, _, broken in without_one_token(schedule):
            dropped += 1
            race = find_race(broken)
            assert race is not None
            with pytest.raises(ScheduleError, match="race: "):
                check_schedule(broken)
            held = (
                shuffled(broken, case.data, 0, hold) for hold in (race.conflict.earlier, awaited)
            )
            assert not all(agrees(run, reference) for run in held)

    check()
    assert dropped > 20


@settings(max_examples=30, deadline=None)
@given(networks())
def test_idempotent_and_never_more_tokens(case: Scheduled):
    full = synchronise(case, elide=False)
    ElideSync().apply(Context(), case.module)
    text = str(case.module)
    fewer = case.schedule()
    assert all(set(a.after) <= set(b.after) for a, b in zip(fewer.tasks, full.tasks, strict=True))
    ElideSync().apply(Context(), case.module)
    assert str(case.module) == text
