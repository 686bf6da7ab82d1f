"""Constraints from a file: obeyed in every run, or refused with the reason."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from compiler.errors import PipelineError, ScheduleError
from compiler.passes.schedule.apply_constraints import ApplyConstraints
from compiler.schedule.tasks import Schedule
from compiler.scheduling.constraints import Constraints, Tasks, constrain
from compiler.scheduling.constraints_json import constraints_from_json, constraints_to_json
from compiler.verify.happens_before import check_schedule
from tests.adversary import agrees, in_order, shuffled
from tests.grouped import Scheduled, synchronise
from tests.networks import networks
from tests.schedules import closure

SHARED_FOLDER = [HealthCheck.function_scoped_fixture]
HEAD: dict[str, Any] = {"format": "flowloom-constraints", "version": 1}


def write(path: Path, **parts: Any) -> str:
    path.write_text(json.dumps(HEAD | parts))
    return str(path)


def task_of(schedule: Schedule, node: str) -> int:
    return next(i for i, task in enumerate(schedule.tasks) if node in task.nodes)


@settings(max_examples=40, deadline=None, suppress_health_check=SHARED_FOLDER)
@given(networks(16), st.integers(0, 2**32))
def test_constraints_hold_and_results_stay(tmp_path: Path, case: Scheduled, seed: int):
    schedule, random = case.schedule(), Random(seed)
    names = list(dict.fromkeys(t.nodes[0] for t in schedule.tasks if t.nodes and t.subflow is None))
    if len(names) < 4:
        return
    a, b, c, d = (names[i] for i in sorted(random.sample(range(len(names)), 4)))
    tasks: dict[str, Any] = {a: {"stream": 7}, c: {"after": [a]}}
    file = write(tmp_path / "c.json", tasks=tasks, order=[[a, b, c]], apart=[[d, b]])
    reference = in_order(schedule, case.data)
    ApplyConstraints(file).apply(Context(), case.module)
    case.module.verify()
    schedule = synchronise(case, reuse=True)
    check_schedule(schedule)
    places = [task_of(schedule, name) for name in (a, b, c)]
    assert schedule.tasks[places[0]].stream == 7
    assert places == sorted(places)
    before, pair = closure(schedule), sorted((task_of(schedule, d), places[1]))
    assert places[0] in before[places[2]]
    assert pair[0] in before[pair[1]]
    assert agrees(shuffled(schedule, case.data, 3), reference)


TASKS = Tasks([["a", "a2"], ["b"], ["c"], []], [0, 0, 1, 1], [[], [0], [], [1, 2]])


def test_tasks_stay_where_they_were_as_far_as_possible():
    found = constrain(TASKS, Constraints({"b": 3}, {"a": ["c"]}))
    assert found.order == [2, 0, 1, 3]
    assert found.streams == [0, 3, 1, 1]
    assert found.after == [{2}, set(), set(), set()]
    assert constrain(TASKS, Constraints({}, {})).order == [0, 1, 2, 3]
    apart = constrain(TASKS, Constraints({}, {}, [["c", "a"]], [("a", "c"), ("b", "c")]))
    assert (apart.order, apart.after) == ([2, 0, 1, 3], [{2}, {2}, set(), set()])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Constraints({"bb": 1}, {}), "holds a node named 'bb'; near it are 'b'"),
        (Constraints({}, {"a": ["x9"]}), "no task of the schedule holds a node named 'x9'$"),
        (Constraints({"a": 1, "a2": 2}, {}), "'a2' and 'a' are one task.* streams 2 and 1"),
        (Constraints({}, {"a": ["a2"]}), "'a' and 'a2' are in one task"),
        (Constraints({}, {"a": ["b"]}), "the data: '[ab]' -> '[ab]' -> '[ab]' wait in a cycle"),
        (Constraints({}, {}, [["b", "c", "a"]]), "contradict each other or the data"),
    ],
)
def test_impossible_constraints_are_explained(wanted: Constraints, message: str):
    with pytest.raises(ScheduleError, match=message):
        constrain(TASKS, wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "the file is not an object"),
        ('{"format": "x", "version": 1}', "not of format 'flowloom-constraints', version 1"),
        (json.dumps(HEAD | {"streams": 3}), "the file has 'streams'; it may have format"),
        (json.dumps(HEAD | {"tasks": {"a": {"strm": 1}}}), r"tasks\['a'\] has 'strm'"),
        (json.dumps(HEAD | {"tasks": {"a": {"stream": -1}}}), "stream is -1, not a number from 0"),
        (json.dumps(HEAD | {"tasks": {"a": {"stream": True}}}), "stream is True"),
        (json.dumps(HEAD | {"tasks": {"a": {"after": "b"}}}), "after is not a list of node names"),
        (json.dumps(HEAD | {"order": "abc"}), "order is not a list of lists"),
        (json.dumps(HEAD | {"apart": [["a"]]}), "apart takes pairs"),
        ('{"tasks": {"a": {}, "a": {}}}', "'a' is there twice"),
    ],
)
def test_faults_of_the_file_are_named(text: str, message: str):
    with pytest.raises(ScheduleError, match=message):
        constraints_from_json(text)


@settings(max_examples=20, deadline=None)
@given(networks())
def test_a_schedule_s_own_constraints_change_nothing(case: Scheduled):
    """Its streams and order, written as constraints, are read back and hold already."""
    schedule = case.schedule()
    wanted = constraints_from_json(constraints_to_json(schedule))
    assert all(schedule.tasks[task_of(schedule, n)].stream == s for n, s in wanted.streams.items())
    places = [task_of(schedule, name) for name in wanted.order[0]]
    assert places == sorted(places)


def test_it_comes_before_insert_sync(tmp_path: Path):
    @settings(max_examples=1, deadline=None)
    @given(networks())
    def check(case: Scheduled):
        synchronise(case)
        with pytest.raises(PipelineError, match="run this before insert-sync"):
            ApplyConstraints(write(tmp_path / "c.json")).apply(Context(), case.module)
        with pytest.raises(ScheduleError, match="cannot read"):
            ApplyConstraints(str(tmp_path / "none.json")).apply(Context(), case.module)

    check()
