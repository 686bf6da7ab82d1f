"""Long work is shown on a terminal, in lines elsewhere, or not at all, and reported to callers."""

import io
import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import compiler
from compiler.errors import ArgumentError
from compiler.progress import (
    Announcement,
    CandidateMeasured,
    KernelBegan,
    KernelEnded,
    KernelsBegan,
    PartEnded,
    PartsBegan,
    PassBegan,
    PassEnded,
    ProgressEvent,
    StepEnded,
    TuningBegan,
    listening,
    notify,
)
from compiler.tools.cli import main
from compiler.tools.progress_display import (
    KernelCounter,
    PlainDisplay,
    TerminalDisplay,
    shown_progress,
)

OPERATORS = ("Tanh", "Exp", "Sin", "Cos", "Erf", "Sigmoid", "Abs", "Neg", "Ceil", "Floor", "Sqrt")


def wide_model(count: int) -> bytes:
    """As many kernels as asked for, each of other operators."""
    body = "\n".join(f"y{i} = {OPERATORS[i % 11]} (x{i})" for i in range(count))
    inputs = ", ".join(f"float[{i + 2}] x{i}" for i in range(count))
    outputs = ", ".join(f"float[{i + 2}] y{i}" for i in range(count))
    text = f'<ir_version: 10, opset_import: ["" : 18]> main ({inputs}) => ({outputs}) {{ {body} }}'
    return parser.parse_model(text).SerializeToString()


@pytest.mark.parametrize(("count", "target"), [(2, "cpu"), (13, "cpu"), (2, "cuda:sm_90")])
def test_a_callback_hears_of_every_pass_step_and_kernel(count: int, target: str):
    heard: list[ProgressEvent] = []
    options: Any = {} if target == "cpu" else {"budget": 0}
    module = compiler.compile(
        wide_model(count), target=target, cache=False, progress=heard.append, **options
    )
    steps = [event.name for event in heard if isinstance(event, StepEnded)]
    assert steps[:3] == ["import", "graph passes", "kernels"]
    began = [event.name for event in heard if isinstance(event, PassBegan)]
    assert began == [event.name for event in heard if isinstance(event, PassEnded)]
    assert began[0] == "conv-to-gemm"
    assert KernelsBegan(count, 0) in heard
    started = {event.name for event in heard if isinstance(event, KernelBegan)}
    ended = {event.name for event in heard if isinstance(event, KernelEnded)}
    assert started == ended == set(module.kernels)


def test_kernels_in_the_cache_are_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path))
    heard: list[ProgressEvent] = []
    compiler.compile(wide_model(2))
    compiler.compile(wide_model(2), progress=heard.append)
    assert KernelsBegan(0, 2) in heard
    assert not any(isinstance(event, KernelEnded) for event in heard)


def test_a_callback_must_be_one():
    with pytest.raises(ArgumentError, match="progress is int 3: it must be a function"):
        compiler.compile(wide_model(1), progress=3)  # type: ignore[arg-type]


def test_listeners_hear_only_of_their_block():
    outer: list[ProgressEvent] = []
    inner: list[ProgressEvent] = []
    notify(Announcement("before"))
    with listening(outer.append):
        with listening(inner.append, None):
            notify(Announcement("both"))
        notify(Announcement("one"))
    notify(Announcement("after"))
    assert outer == [Announcement("both"), Announcement("one")]
    assert inner == [Announcement("both")]


def played(display: Any, counter: KernelCounter, events: list[tuple[float, ProgressEvent]]) -> None:
    """Show events at their times; the display's clock is the last one's."""
    for now, event in events:
        TIME[0] = now
        counter.take(event, now)
        display.show(event)


TIME = [0.0]
EVENTS: list[tuple[float, ProgressEvent]] = [
    (0.1, PassBegan("quick")),
    (0.2, PassEnded("quick", 0.1)),
    (0.2, KernelsBegan(4, 1)),
    (0.2, KernelBegan("slow")),
    (0.2, KernelBegan("a")),
    (0.4, KernelEnded("a", 0.2)),
    (0.4, KernelBegan("b")),
    (2.2, KernelEnded("b", 1.8)),
    (2.5, KernelEnded("slow", 2.3)),
    (5.0, PassEnded("substitute", 2.0)),
    (5.1, Announcement("measuring schedules for 5 s")),
    (5.2, PartsBegan("prepare", 4)),
    (5.6, PartEnded("prepare", "a", 0.5)),
    (9.2, PartEnded("prepare", "b", 3.9)),
]


def test_lines_are_a_second_apart_and_name_the_slow_kernel():
    TIME[0] = 0.0
    stream, counter = io.StringIO(), KernelCounter()
    played(PlainDisplay(counter, stream, lambda: TIME[0]), counter, EVENTS)
    assert stream.getvalue().splitlines() == [
        "flowloom: kernel 2 of 4: b, 1.8 s; about 2 s left; at work on slow",
        "flowloom: pass substitute: 2.0 s",
        "flowloom: measuring schedules for 5 s",
        "flowloom: prepare 2 of 4: b, 3.9 s; about 4 s left",
    ]
    assert counter.slowest()[:2] == [("kernel slow", 2.3), ("pass substitute", 2.0)]


TUNING: list[tuple[float, ProgressEvent]] = [
    (6.0, TuningBegan(3, 2.0)),
    (6.5, CandidateMeasured(4, 9)),
]


def test_measured_kernels_are_told_with_the_seconds_that_are_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    stream, counter = io.StringIO(), KernelCounter()
    played(PlainDisplay(counter, stream, lambda: TIME[0]), counter, EVENTS[:8] + TUNING)
    assert stream.getvalue().splitlines()[-1] == (
        "flowloom: measuring 3 kernels that no database has, for at most 2.0 s"
    )
    counter = KernelCounter()
    display = TerminalDisplay(counter, Terminal(), lambda: TIME[0])
    played(display, counter, EVENTS[:8] + TUNING)
    bar: Any = display
    (task,) = bar._bar.tasks
    assert (task.completed, task.total) == (4, 9)
    assert task.fields["left"] == "about 2 s left"
    played(display, counter, [(7.0, KernelsBegan(4, 0)), (8.0, KernelEnded("a", 1.0))])
    assert task.fields["left"] == "about 3 s left"
    display.stop()


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Whether it is."""
        return True


def test_a_terminal_has_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    TIME[0] = 0.0
    stream, counter = Terminal(), KernelCounter()
    display = TerminalDisplay(counter, stream, lambda: TIME[0])
    played(display, counter, EVENTS[:8])
    bar: Any = display
    assert bar._bar.tasks[0].description == "kernel 3 of 4: slow"
    assert bar._bar.tasks[0].fields["left"] == "about 2 s left"
    played(display, counter, EVENTS[-3:])
    assert bar._bar.tasks[0].description == "prepare 2 of 4: b"
    assert (bar._bar.tasks[0].completed, bar._bar.tasks[0].total) == (2, 4)
    display.show(StepEnded("kernels", 3.0))
    assert not bar._bar.live.is_started
    assert "kernel" in stream.getvalue() or "pass quick" in stream.getvalue()
    display.stop()


def test_a_command_shows_what_fits_its_stream(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with shown_progress(Namespace(quiet=True)):
        notify(Announcement("hidden"))
    with shown_progress(Namespace()):
        notify(Announcement("hidden"))
    assert stream.getvalue() == ""
    with shown_progress(Namespace(quiet=False)):
        notify(Announcement("shown"))
    assert "shown" in stream.getvalue()


def test_compile_prints_json_and_the_slowest_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "wide.onnx"
    path.write_bytes(wide_model(3))
    command = ["compile", str(path), "-o", str(tmp_path / "built"), "--no-cache", "--timing"]
    assert main([*command, "--json", "--quiet"]) == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert figures["kernels"] == figures["tasks"] == len(figures["kernel_seconds"]) == 3
    assert "kernels" in figures["seconds"]
    slowest = max(figures["kernel_seconds"], key=lambda name: figures["kernel_seconds"][name])
    named = [line.split()[-1] for line in printed.err.splitlines() if "kernel " in line]
    assert named[0] == slowest
    assert len(named) == 3
    assert compiler.load(figures["output"]).run(
        {f"x{i}": np.ones(i + 2, np.float32) for i in range(3)}
    )


def test_export_and_tune_print_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        " main (float[4,8] x, float[8,8] w) => (float[4,8] y) { y = MatMul (x, w) }"
    )
    path, bundle = tmp_path / "m.onnx", tmp_path / "b"
    path.write_bytes(model.SerializeToString())
    built, project = str(tmp_path / "built"), str(tmp_path / "project")
    options = ["--target", "cuda", "--arch", "sm_90", "--budget", "0", "-q"]
    assert main(["compile", str(path), "-o", built, *options]) == 0
    capsys.readouterr()
    assert main(["export", built, "-o", project, "--json", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["project"] == project
    assert printed.err == ""
    assert main(["export", built, "-o", project]) == 0
    assert f"writing 1 kernels to {project}" in capsys.readouterr().err
    assert main(["tune", "prepare", str(path), "-o", str(bundle), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["bundle"] == str(bundle)
    assert "m.onnx" in printed.err
    assert onnx.load_model_from_string(path.read_bytes()).graph.node
