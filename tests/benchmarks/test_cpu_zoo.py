"""The benchmark on the CPU sees other work, tries again, goes on where it was; its ratios."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cpu_zoo
from benchmarks.cpu import runtimes
from benchmarks.cpu.table import table
from examples import field, named


def test_other_work_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stat = tmp_path / "stat"
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [3 * ticks, 0, 1 * ticks, 100 * ticks, 50 * ticks, 0, 0, 2 * ticks, 9, 9]
    stat.write_text(f"cpu  {' '.join(map(str, fields))}\ncpu0 1 2 3\n")
    assert cpu_zoo.busy_seconds(stat) == 6.0
    assert cpu_zoo.busy_seconds(tmp_path / "none") != cpu_zoo.busy_seconds(tmp_path / "none")
    clock = iter([100.0, 100.0 + (os.cpu_count() or 1)])
    monkeypatch.setattr(cpu_zoo, "busy_seconds", lambda: next(clock))
    times = iter([0.0, 2.0])
    monkeypatch.setattr(cpu_zoo, "perf_counter", lambda: next(times))
    monkeypatch.setattr(cpu_zoo, "process_time", lambda: 0.0)
    figures = {"onnxruntime": 20.0, "openvino": 10.0, "streams=1": 6.0, "streams=4": 8.0}

    def take_turns(*_: Any, **__: Any) -> dict[str, float]:
        return figures

    monkeypatch.setattr(cpu_zoo, "take_turns", take_turns)
    row = cpu_zoo.attempt({}, 5)
    found = {"ratio": 0.6, "default": 0.8, "to onnxruntime": 0.3, "to openvino": 0.6}
    assert row == {**figures, **found, "others": 0.5}
    assert "others 50 % !" in cpu_zoo.describe({"model": "unet", "threads": 2, **row})


def attempts_of(monkeypatch: pytest.MonkeyPatch, others: list[float]) -> tuple[float, int]:
    """The disturbance of the attempt that is taken, and how many were made."""
    left = list(others)

    def attempt(*_: Any) -> cpu_zoo.Row:
        return {"others": left.pop(0)}

    monkeypatch.setattr(cpu_zoo, "attempt", attempt)
    row = cpu_zoo.measure({}, 5, 3)
    return row["others"], len(others) - len(left)


def test_disturbed_rows_are_measured_again(monkeypatch: pytest.MonkeyPatch):
    assert attempts_of(monkeypatch, [0.01, 0.0, 0.0]) == (0.01, 1)
    assert attempts_of(monkeypatch, [0.3, 0.02, 0.0]) == (0.02, 2)
    assert attempts_of(monkeypatch, [0.3, 0.1, 0.2, 0.0]) == (0.1, 3)
    assert attempts_of(monkeypatch, [float("nan"), 0.0])[1] == 1


def test_quiet_rows_are_kept_and_disturbed_ones_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    file, measured = tmp_path / "rows.json", list[str]()
    disturbed = {"unet"}

    def contenders_of(name: str, *_: Any) -> cpu_zoo.Runs:
        return {name: lambda: None}

    def attempt(contenders: cpu_zoo.Runs, runs: int) -> cpu_zoo.Row:
        (name,) = contenders
        measured.append(name)
        others = 0.5 if name in disturbed else 0.0
        return {
            "onnxruntime": 2.0,
            "streams=1": 1.0,
            **{"ratio": 0.5, "default": 0.5, "to onnxruntime": 0.5},
            "others": others,
        }

    monkeypatch.setattr(cpu_zoo, "contenders_of", contenders_of)
    monkeypatch.setattr(cpu_zoo, "attempt", attempt)
    given = ["cpu_zoo.py", "--models", "unet", "deepfm", "--threads", "1", "--json", str(file)]
    monkeypatch.setattr(sys, "argv", given)
    cpu_zoo.main()
    assert measured == ["unet"] * 3 + ["deepfm"]
    assert "1 rows were disturbed by other work: unet" in capsys.readouterr().out
    disturbed.clear()
    cpu_zoo.main()
    assert measured[4:] == ["unet"]
    rows = json.loads(file.read_text())["rows"]
    assert [(row["model"], row["others"]) for row in rows] == [("unet", 0.0), ("deepfm", 0.0)]
    assert "ratio 0.500 (0 of 2 are losses)" in capsys.readouterr().out


def found(model: str, threads: int, onnxruntime: float, ours: float, **more: float) -> cpu_zoo.Row:
    figures = {"onnxruntime": onnxruntime, **more, "streams=1": ours}
    key = {"model": model, "threads": threads}
    return {**key, **figures, **cpu_zoo.ratios(figures), "others": 0.0}


def test_the_table_shows_each_loss_and_the_means():
    rows = [found("unet", 1, 4.0, 2.0, openvino=1.0), found("field:espcn", 1, 4.0, 2.0)]
    lines = table(rows).splitlines()
    assert lines[2] == "| espcn | 4 | - | 2 | 0.50 | - | 0.50 |"
    assert lines[3] == "| unet | 4 | 1 | 2 | 0.50 | **2.00** | **2.00** |"
    assert "geometric mean, 1 threads: ratio 1.000 (1 of 2 are losses)" in lines
    assert "geometric mean, 1 threads: to openvino 2.000 (1 of 1 are losses)" in lines


def test_a_peer_that_refuses_a_model_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    real = runtimes.prepare_peer

    def prepare(peer: str, *given: Any) -> runtimes.ModelRun:
        if peer == "openvino":
            raise ValueError("no such operator")
        return real(peer, *given)

    monkeypatch.setattr(runtimes, "prepare_peer", prepare)
    contenders = cpu_zoo.contenders_of("field:espcn", 1, [1], ["onnxruntime", "openvino"])
    assert set(contenders) == {"onnxruntime", "streams=1"}
    assert "field:espcn: openvino is left out: no such operator" in capsys.readouterr().out


def test_a_peer_that_is_wrong_on_several_threads_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def prepare(peer: str, model: Any, inputs: Any, threads: int) -> runtimes.ModelRun:
        right = real(peer, model, inputs, 1)()
        return lambda: {name: array + (threads > 1) for name, array in right.items()}

    real = runtimes.prepare_peer
    monkeypatch.setattr(runtimes, "prepare_peer", prepare)
    with pytest.raises(SystemExit, match="field:espcn: there is nothing to compare with"):
        cpu_zoo.contenders_of("field:espcn", 2, [1], ["onnxruntime"])
    assert "its outputs differ from onnxruntime's on one thread" in capsys.readouterr().out


def test_the_cpu_has_a_name(tmp_path: Path):
    file = tmp_path / "cpuinfo"
    file.write_text("cpu family\t: 25\nmodel\t: 17\nmodel name\t: Some CPU\n\nmodel\t: 3\n")
    assert runtimes.cpu_name(file) == "Some CPU, cpu family 25, model 17"
    assert runtimes.cpu_name(tmp_path / "none") == "unknown"


def test_a_network_is_named_with_its_collection():
    assert named.load("field:espcn").graph.name == "espcn"
    assert named.path("zoo:unet") == named.path("unet")
    assert named.usual(with_field=True) == [f"field:{name}" for name in field.names()]
    assert "gpt2large" not in named.usual(with_field=False)
    assert {named.builder(name) for name in named.every()}
    with pytest.raises(KeyError, match="the field has no network 'unet'"):
        named.path("field:unet")
