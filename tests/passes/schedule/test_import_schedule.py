"""A schedule from a file: taken as it is, or refused with the race."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from xdsl.context import Context

from compiler.errors import PipelineError, ScheduleError
from compiler.ir.flatten import schedule_of
from compiler.ir.unflatten import unflattened
from compiler.passes.schedule.import_schedule import ImportSchedule
from compiler.schedule.tasks import Schedule
from compiler.verify.schedule_json import to_json
from tests.grouped import Scheduled, synchronise, taskflow_of
from tests.networks import networks


def renumbered(schedule: Schedule) -> Schedule:
    """The schedule with subflows numbered by their first task, as the IR does."""
    first: dict[int | None, int] = {}
    for index, task in enumerate(schedule.tasks):
        first.setdefault(task.subflow, index)
    tasks = (
        replace(t, subflow=None if t.subflow is None else first[t.subflow]) for t in schedule.tasks
    )
    return replace(schedule, tasks=tuple(tasks))


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(networks())
def test_round_trip(tmp_path: Path, case: Scheduled):
    schedule = synchronise(case, reuse=True)
    assert schedule_of(unflattened(schedule, case.graph)) == renumbered(schedule)
    (tmp_path / "s.json").write_text(to_json(schedule))
    ImportSchedule(str(tmp_path / "s.json")).apply(Context(), case.module)
    case.module.verify()
    assert schedule_of(taskflow_of(case.module)) == renumbered(schedule)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(networks())
def test_a_lost_token_is_a_race(tmp_path: Path, case: Scheduled):
    schedule = synchronise(case, reuse=True)
    waiting = [i for i, task in enumerate(schedule.tasks) if task.after]
    if waiting:
        document = json.loads(to_json(schedule))
        document["tasks"][waiting[-1]]["after"] = []
        (tmp_path / "s.json").write_text(json.dumps(document))
        with pytest.raises(ScheduleError, match="race: "):
            ImportSchedule(str(tmp_path / "s.json")).apply(Context(), case.module)


@settings(
    max_examples=1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(networks())
def test_what_does_not_fit_is_refused(tmp_path: Path, case: Scheduled):
    path = tmp_path / "s.json"
    with pytest.raises(ScheduleError, match="cannot read"):
        ImportSchedule(str(path)).apply(Context(), case.module)
    path.write_text(to_json(case.schedule()))
    with pytest.raises(PipelineError, match="run insert-sync first"):
        ImportSchedule(str(path)).apply(Context(), case.module)
    schedule = synchronise(case)
    other = [replace(a, name="z") if a.kind == "input" else a for a in schedule.allocations]
    with pytest.raises(ScheduleError, match="inputs and outputs are not those of the model"):
        unflattened(replace(schedule, allocations=tuple(other)), case.graph)
