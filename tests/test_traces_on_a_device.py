"""Measured times of tasks on a GPU, in traces and in the explorer's page, and ranges of runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.backends.gpu import nvtx
from compiler.errors import DeviceError
from compiler.tools.cli import main
from tests.explore.modules import branches
from tests.explore.test_document import written

pytest.importorskip("tvm", reason="models are compiled")
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda_device")]

OPTIONS = ["--target", "cuda", "--budget", "0"]

Event = Mapping[str, Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Branches that several streams run."""
    return branches(tmp_path_factory.mktemp("model") / "model.onnx")


def slices(trace: Mapping[str, Any], process: int) -> dict[int, Event]:
    """The slices of a process of a trace, by task."""
    events = (e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == process)
    return {event["args"]["task"]: event for event in events}


def check_measured(trace: Mapping[str, Any], module: Any) -> None:
    """Every task has a time, on its stream, that begins after those that it waits for."""
    assert "measured in mode streams" in trace["otherData"]["measured"]
    measured, tasks = slices(trace, process=2), module.schedule.tasks
    assert measured.keys() == slices(trace, process=1).keys() == set(range(len(tasks)))
    for index, event in measured.items():
        assert event["tid"] == tasks[index].stream
        assert 0.1 < event["dur"] < 1e5, "microseconds of a small kernel"
        for other in tasks[index].after:
            assert measured[other]["ts"] + measured[other]["dur"] <= event["ts"] + 1e-3


def test_a_trace_has_the_measured_time_of_each_task(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file, built = tmp_path / "trace.json", tmp_path / "built"
    assert main(["trace", str(model), "-o", str(file), *OPTIONS]) == 0
    assert "predicted; measured in mode streams" in capsys.readouterr().out
    options: dict[str, Any] = {"target": "cuda", "budget": 0}
    module = compiler.compile(str(model), **options)
    check_measured(json.loads(file.read_text()), module)
    module.save(built)
    assert main(["trace", str(built), "-o", str(file)]) == 0
    check_measured(json.loads(file.read_text()), module)


def test_a_page_has_the_measured_time_of_each_task(model: Path, tmp_path: Path):
    html = tmp_path / "page.html"
    assert main(["explore", str(model), "-o", str(html), *OPTIONS]) == 0
    (module,) = written(html)["sides"][0]["modules"]
    for task in module["tasks"]:
        start, end = task["measured"]
        assert 0 <= start < end


def test_runs_are_ranges_for_nsight(
    model: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    module = compiler.compile(str(model), target="cuda", budget=0)
    inputs = {a.name: np.ones(a.shape, a.dtype) for a in module.inputs}
    plain = module.run(inputs)
    monkeypatch.setenv(nvtx.NVTX_VARIABLE, "1")
    nvtx.range_calls.cache_clear()
    request.addfinalizer(nvtx.range_calls.cache_clear)
    try:
        found = module.run(inputs)
    except DeviceError as error:
        pytest.skip(str(error))
    for name, array in plain.items():
        np.testing.assert_array_equal(found[name], array)
