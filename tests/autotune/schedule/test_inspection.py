"""`flowloom report` and `flowloom trace` show what was chosen, and label what was measured."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import compiler
from compiler.autotune.schedule import decision
from compiler.errors import DeviceError
from compiler.tools.cli import main
from tests.autotune.schedule import fakes
from tests.backends.gpu.recording import RecordingDriver


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> RecordingDriver:
    """A device that is there while compiling; `saved` compiles on it."""
    found = fakes.recorder()

    def present(target: str = "", ordinal: int = 0) -> RecordingDriver:
        return found

    monkeypatch.setattr("compiler.driver.build.build_kernels", fakes.kernels)
    monkeypatch.setattr(decision, "present_device", present)
    monkeypatch.setattr("compiler.backends.cuda.build.device", present)
    return found


@pytest.fixture
def saved(driver: RecordingDriver, tmp_path: Path) -> Path:
    """An artifact whose choice was measured."""
    module = compiler.compile(fakes.model(), target="cuda", arch="sm_90", budget=0.3)
    module.save(tmp_path / "built")
    return tmp_path / "built"


def absent(ordinal: int = 0) -> Any:
    raise DeviceError("no CUDA device is present")


def slices(path: Path, process: int) -> list[dict[str, Any]]:
    events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event["ph"] == "X" and event["pid"] == process]


def test_a_report_has_every_figure_and_needs_no_device(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setattr("compiler.backends.cuda.build.device", absent)
    assert main(["report", str(saved)]) == 0
    text = capsys.readouterr().out
    choice = json.loads((saved / "manifest.json").read_text())["choice"]
    for name in choice["timings"]:
        assert name in text
    for word in ("cuda:sm_90:tf32", choice["reason"], "<- chosen", "(baseline)", "recorder"):
        assert word in text
    assert "the model's error" in text
    assert "access   0 of " in text
    tasks = len(json.loads((saved / "schedule.json").read_text())["tasks"])
    path = re.search(r"^path +(\d+) tasks? of \d+ kernels? on the longest path", text, re.MULTILINE)
    assert path is not None
    assert 1 <= int(path[1]) <= tasks
    written = tmp_path / "report.txt"
    assert main(["report", str(saved), "-o", str(written)]) == 0
    assert written.read_text() == text
    assert main(["report", str(saved), "-o", str(tmp_path / "page.html")]) == 1
    assert "flowloom explore" in capsys.readouterr().err


def test_a_trace_has_predicted_and_measured_rows(saved: Path, tmp_path: Path):
    path = tmp_path / "trace.json"
    assert main(["trace", str(saved), "-o", str(path)]) == 0
    tasks = json.loads((saved / "schedule.json").read_text())["tasks"]
    assert len(slices(path, 1)) == len(slices(path, 2)) == len(tasks)
    streams = {event["tid"] for event in slices(path, 1)}
    assert streams == {event["tid"] for event in slices(path, 2)}


def test_a_trace_without_a_device_is_predicted_and_says_so(
    saved: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("compiler.backends.cuda.build.device", absent)
    path = tmp_path / "trace.json"
    assert main(["trace", str(saved), "-o", str(path)]) == 0
    assert slices(path, 1)
    assert not slices(path, 2)
    data = json.loads(path.read_text())
    assert "no CUDA device" in data["otherData"]["measured"]
    labels = [e["args"]["name"] for e in data["traceEvents"] if e["name"] == "process_name"]
    assert len(labels) == 1
    assert labels[0].startswith("predicted, not measured")
    assert "not measured" in capsys.readouterr().out


def test_the_cpu_has_no_choice_and_a_measured_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    compiler.compile(fakes.model(), threads=1).save(tmp_path / "built")
    assert main(["report", str(tmp_path / "built")]) == 0
    assert "choice   none" in capsys.readouterr().out
    path = tmp_path / "trace.json"
    assert main(["trace", str(tmp_path / "built"), "-o", str(path)]) == 0
    assert len(slices(path, 1)) == len(compiler.load(tmp_path / "built").schedule.tasks)
    measured = [one for one in slices(path, 2) if not one["name"].startswith("helps ")]
    assert [one["args"]["task"] for one in measured] == list(range(len(slices(path, 1))))
    assert "measured by the executor" in capsys.readouterr().out
    counted = [e["name"] for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "C"]
    assert {*counted} == {"arena bytes in use", "tasks ready"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "missing"], "missing"),
        (["trace", "missing.onnx", "-o", "x.json"], "missing.onnx"),
        (["compile", "m.onnx", "-o", "x", "--frozen"], "--profile"),
        (
            ["compile", "m.onnx", "-o", "x", "--target", "cuda", "--frozen", "--profile", "n.json"],
            "n.json",
        ),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 1
    assert message in capsys.readouterr().err
