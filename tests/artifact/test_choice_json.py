"""The recorded choice as JSON: nothing is lost, wrong entries are named."""

import json
from typing import Any

import pytest

from compiler.artifact.choice_json import choice_from_json, choice_to_json
from compiler.errors import ArtifactError
from compiler.schedule.choices import (
    BINDING,
    CONTRACTIONS,
    SCHEDULE,
    SUBSTITUTION,
    Choice,
    ScheduleChoice,
    SearchRecord,
    Timing,
)

TIMING = Timing(median=5.0, low=4.0, high=6.5, count=9)
SEARCH = SearchRecord(
    start="opara-4/none/critical-path",
    started_at=9.0,
    moved=8.0,
    makespan=8.5,
    steps=100,
    kept=3,
    seed=2,
    policies={"opara-4/none/critical-path": 9.0},
    bound={"path": 7.0, "work": 3.0},
)
PREDICTED = ScheduleChoice(
    question=SCHEDULE,
    mode="graph",
    costs={"k": 1.5},
    source="model",
    chosen="graph/auto",
    pdl=True,
    reason="no device",
    baseline="graph/1/none",
    pipeline="fuse-operators",
    budget_seconds=0.5,
    estimates={"graph/auto": 8.5},
    search=SEARCH,
)
MEASURED = Choice(
    question=CONTRACTIONS,
    source="measured",
    chosen="floats",
    baseline="floats",
    timings={"floats": TIMING, "operands": TIMING},
    within=(
        Choice(
            question=SUBSTITUTION,
            source="measured",
            chosen="substituted",
            baseline="original",
            timings={"substituted": TIMING, "original": TIMING},
            within=(
                ScheduleChoice(
                    question=SCHEDULE,
                    source="measured",
                    mode="streams",
                    chosen="streams",
                    timings={"streams": TIMING},
                    skipped={"graph": "needs 9 TB"},
                    device={"name": "H200", "driver_version": "13.0", "clock_khz": 1_980_000},
                    within=(
                        Choice(
                            question=f"{BINDING}x",
                            source="measured",
                            chosen="copy",
                            timings={"copy": TIMING, "update": TIMING},
                        ),
                    ),
                ),
            ),
        ),
    ),
)


def as_json(choice: Choice) -> dict[str, Any]:
    """What a manifest has of a choice."""
    return json.loads(json.dumps(choice_to_json(choice)))


@pytest.mark.parametrize("choice", [PREDICTED, MEASURED], ids=lambda choice: choice.source)
def test_nothing_is_lost(choice: Choice):
    assert choice_from_json(as_json(choice), "choice") == choice


def test_a_choice_nests_and_each_question_is_found():
    assert [c.question for c in MEASURED.nested()] == [
        *("contractions", "substitution", "schedule", "binding of x")
    ]
    assert MEASURED.schedule.bindings == {"x": "copy"}
    substitution = MEASURED.of(SUBSTITUTION)
    assert substitution is not None
    assert [*substitution.times] == ["substituted", "original"]
    assert PREDICTED.of(SUBSTITUTION) is None
    assert str(MEASURED).splitlines()[0].startswith("streams: measured")
    assert str(MEASURED).splitlines()[-1].startswith("quantised operators contract floats: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "zigzag"}, r"choice\.mode is 'zigzag'"),
        ({"source": "guess"}, r"choice\.source is 'guess'"),
        ({"costs": {"k": "1"}}, r"choice\.costs\.k is not a number"),
        ({"timings": {"a": {"median": 1.0}}}, r"choice\.timings\.a\.low is not a number"),
        ({"search": []}, r"choice\.search is not an object"),
        ({"pipeline": None}, r"choice\.pipeline is not a string"),
        ({"question": "colour"}, r"'colour', not contractions, substitution, schedule"),
        ({"question": CONTRACTIONS}, r"choice\.within is not the choices within contractions"),
        ({"within": 3}, r"choice\.within is not a list"),
        ({"within": [{"question": SCHEDULE}]}, r"within\[0\]\.question is 'schedule', not binding"),
        ({"within": [{"question": f"{BINDING}x"}]}, r"within\[0\]\.chosen is not a string"),
    ],
)
def test_a_wrong_entry_is_named(change: dict[str, Any], message: str):
    with pytest.raises(ArtifactError, match=message):
        choice_from_json({**choice_to_json(PREDICTED), **change}, "choice")


def test_choices_cannot_be_nested_deeper_than_the_questions_are():
    choice = as_json(PREDICTED)
    for _ in range(300):
        choice = {"question": SUBSTITUTION, "chosen": "a", "source": "model", "within": [choice]}
    with pytest.raises(
        ArtifactError, match=r"within\[0\]\.question is 'substitution', not schedule"
    ):
        choice_from_json(choice, "choice")
