"""The recorded choice as JSON: nothing is lost, old manifests load, wrong entries are named."""

import json
from typing import Any

import pytest

from compiler.errors import ArtifactError
from compiler.export.choice_json import choice_from_json, choice_to_json
from compiler.schedule import BindingChoice, ScheduleChoice, SearchRecord, Timing

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
    mode="graph",
    costs={"k": 1.5},
    source="model",
    chosen="graph/auto",
    pdl=True,
    reason="no device",
    baseline="graph/1/none",
    streams=4,
    pipeline="fuse-operators",
    budget_seconds=0.5,
    measured_kernels=1,
    kernels=2,
    estimates={"graph/auto": 8.5},
    search=SEARCH,
)
MEASURED = ScheduleChoice(
    mode="streams",
    costs={},
    source="measured",
    chosen="streams",
    timings={"streams": TIMING},
    skipped={"graph": "needs 9 TB"},
    bindings={"x": BindingChoice("copy", {"copy": TIMING, "update": TIMING})},
    device={"name": "H200", "driver_version": "13.0", "clock_khz": 1_980_000},
    graphs={"substituted": TIMING, "original": TIMING},
)


@pytest.mark.parametrize("choice", [PREDICTED, MEASURED], ids=lambda choice: choice.source)
def test_nothing_is_lost(choice: ScheduleChoice):
    assert choice_from_json(json.loads(json.dumps(choice_to_json(choice))), "choice") == choice


def test_an_old_record_loads():
    """Records did not always say what the moves came to, how buffers are bound, or of PDL."""
    record = choice_to_json(PREDICTED)
    del record["pdl"], record["search"]["moved"]
    found = choice_from_json(record, "choice")
    assert (found.pdl, found.bindings, found.timings) == (False, {}, {})
    assert found.search is not None
    assert found.search.moved == found.search.makespan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "zigzag"}, r"choice\.mode is 'zigzag'"),
        ({"source": "guess"}, r"choice\.source is 'guess'"),
        ({"costs": {"k": "1"}}, r"choice\.costs\.k is not a number"),
        ({"kernels": {"of": 2}}, r"choice\.kernels\.measured is not an integer"),
        ({"timings": {"a": {"median": 1.0}}}, r"choice\.timings\.a\.low is not a number"),
        ({"bindings": {"x": {"copy": {}}}}, r"choice\.bindings\.x\.chosen is not a string"),
        ({"search": []}, r"choice\.search is not an object"),
        ({"pipeline": None}, r"choice\.pipeline is not a string"),
    ],
)
def test_a_wrong_entry_is_named(change: dict[str, Any], message: str):
    with pytest.raises(ArtifactError, match=message):
        choice_from_json({**choice_to_json(PREDICTED), **change}, "choice")
