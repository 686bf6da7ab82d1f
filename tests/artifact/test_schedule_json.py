"""Schedules survive JSON, and every fault of the text is an ArtifactError that names its place."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import ArtifactError
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.verify.schedule_json import from_json, to_json
from tests.schedules import schedules

SCHEDULE = Schedule(
    "main",
    (Allocation("input", 'ünï "x"', "bfloat16", (1, 2)), Allocation("output", "y", "bool", ())),
    (
        Task("A", 0, (), (View(0, 0, "bfloat16", (1, 2)),), (View(1, 0, "bool", ()),), 0, ("n",)),
        Task("B", 3, (0,), (), ()),
    ),
)


@settings(max_examples=50, deadline=None)
@given(schedules())
def test_round_trip(schedule: Schedule):
    assert from_json(to_json(schedule)) == schedule


def test_text_has_a_task_a_line_and_is_stable():
    text = to_json(SCHEDULE)
    assert from_json(text) == SCHEDULE
    assert to_json(from_json(text)) == text
    assert sum(line.startswith('{"kernel"') for line in text.splitlines()) == 2
    assert from_json(to_json(Schedule("", (), ()))) == Schedule("", (), ())


def edited(path: str, value: object) -> str:
    """The text with the entry at a path such as `tasks/0/stream` replaced."""
    document = json.loads(to_json(SCHEDULE))
    place = document
    *parents, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    for key in parents:
        place = place[key]
    place[last] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "other", "format is 'other'"),
        ("version", 4, "format version 4, this Flowloom reads version 3"),
        ("version", 3, "is of a segment for all sizes"),
        ("tasks", None, "the schedule.tasks is not a list"),
        ("name", 3, "the schedule.name is not a string"),
        ("tasks/1", 1, "tasks[1] is not an object"),
        ("tasks/1/stream", -1, "tasks[1].stream is negative"),
        ("tasks/1/after", [True], "tasks[1].after[0] is not an integer"),
        ("tasks/0/reads/0", [0, 0, "bool"], "tasks[0].reads[0] is not [allocation,"),
        ("tasks/0/reads/0/3", "a", "reads[0][3] is not a list"),
        ("tasks/0/reads/0/2", "f8", "reads[0][2] is 'f8'"),
        ("allocations/0/kind", "cloud", "allocations[0].kind is 'cloud'"),
        ("allocations/0/shape", [1.5], "shape[0] is not an integer"),
    ],
)
def test_a_fault_is_named(path: str, value: object, message: str):
    with pytest.raises(ArtifactError) as caught:
        from_json(edited(path, value))
    assert message in str(caught.value)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, len(to_json(SCHEDULE)) - 3))
def test_a_truncated_text_is_an_error(end: int):
    with pytest.raises(ArtifactError, match="not JSON"):
        from_json(to_json(SCHEDULE)[:end])


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_other_json_is_an_error(document: object):
    with pytest.raises(ArtifactError):
        from_json(json.dumps(document))
