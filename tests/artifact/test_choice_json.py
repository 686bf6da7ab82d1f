"""The recorded choice as JSON: nothing is lost, flat ones load, wrong entries are named."""

import json
from dataclasses import asdict
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


FLAT: dict[str, Any] = {
    "mode": "streams",
    "costs": {"k": 1.5},
    "source": "measured",
    "chosen": "streams/auto",
    "pdl": False,
    "reason": "the fastest of those that are surely no slower than graph/1/none",
    "baseline": "graph/1/none",
    "streams": 4,
    "pipeline": "substitute{take=3},fuse-operators",
    "budget_seconds": 5.0,
    "estimates": {"streams/auto": 8.5, "graph/1/none": 10.0},
    "timings": {"streams/auto": asdict(TIMING)},
    "skipped": {"graph/1/none": "needs 9 TB"},
    "bindings": {"x": {"chosen": "copy", "copy": asdict(TIMING), "update": asdict(TIMING)}},
    "device": {"name": "H200", "driver_version": "13.0", "clock_khz": 1_980_000},
    "graphs": {"substituted": asdict(TIMING), "original": asdict(TIMING)},
    "contractions": {"floats": 8.0, "operands": 9.0},
    "kernels": {"measured": 1, "of": 2},
}
"""What format version 4 recorded: one flat record, of which older ones lacked some entries."""


def test_a_flat_record_becomes_nested_choices():
    choice = choice_from_json(FLAT, "choice")
    assert [c.question for c in choice.nested()] == [
        *("contractions", "substitution", "schedule", "binding of x")
    ]
    assert [(c.chosen, c.source) for c in choice.nested()] == [
        ("floats", "measured"),
        ("substituted", "measured"),
        ("streams/auto", "measured"),
        ("copy", "measured"),
    ]
    assert choice.times == FLAT["contractions"]
    schedule = choice.schedule
    assert schedule.timings == {"streams/auto": TIMING}
    assert (schedule.mode, schedule.bindings) == ("streams", {"x": "copy"})
    assert (schedule.costs, schedule.device) == (FLAT["costs"], FLAT["device"])
    assert choice_from_json(as_json(choice), "choice") == choice


def test_the_oldest_flat_records_load():
    """They did not say what the moves came to, how buffers are bound, or of PDL."""
    optional = ("pdl", "timings", "skipped", "bindings", "device", "graphs", "contractions")
    record = {name: value for name, value in FLAT.items() if name not in optional}
    search = asdict(SEARCH)
    del search["moved"]
    oldest: dict[str, Any] = {**record, "source": "model", "search": search}
    choice = choice_from_json(oldest, "choice")
    assert isinstance(choice, ScheduleChoice)
    assert (choice.pdl, choice.within, choice.timings) == (False, (), {})
    assert choice.search is not None
    assert choice.search.moved == choice.search.makespan
    unsubstituted: dict[str, Any] = {**FLAT, "contractions": {}, "pipeline": "fuse-operators"}
    plain = choice_from_json(unsubstituted, "choice")
    assert (plain.question, plain.chosen) == (SUBSTITUTION, "original")


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bindings": {"x": {"copy": {}}}}, r"choice\.bindings\.x\.chosen is not a string"),
        ({"graphs": {"original": 3}}, r"within\[0\]\.timings\.original is not an object"),
        ({"contractions": 3}, r"choice\.contractions is not an object"),
        ({"mode": "zigzag"}, r"\.mode is 'zigzag'"),
    ],
)
def test_a_wrong_entry_of_a_flat_record_is_named(change: dict[str, Any], message: str):
    with pytest.raises(ArtifactError, match=message):
        choice_from_json({**FLAT, **change}, "choice")


def test_choices_cannot_be_nested_deeper_than_the_questions_are():
    choice = as_json(PREDICTED)
    for _ in range(300):
        choice = {"question": SUBSTITUTION, "chosen": "a", "source": "model", "within": [choice]}
    with pytest.raises(
        ArtifactError, match=r"within\[0\]\.question is 'substitution', not schedule"
    ):
        choice_from_json(choice, "choice")
