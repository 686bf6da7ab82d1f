"""Long work is shown on a terminal, in lines elsewhere, or not at all, and reported to callers."""

import io
import json
import sys
from argparse import Namespace
from collections import Counter
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
    in_parts,
    listening,
    notify,
)
from compiler.tools.cli import main, make_parser, with_step
from compiler.tools.progress.counter import WorkCounter
from compiler.tools.progress.display import PlainDisplay, TerminalDisplay
from compiler.tools.progress.options import shown_progress

OPERATORS = ("Tanh", "Exp", "Sin", "Cos", "Erf", "Sigmoid", "Abs", "Neg", "Ceil", "Floor", "Sqrt")


def wide_model(count: int) -> bytes:
    """As many kernels as asked for, each of other operators."""
    body = "\n".join(f"y{i} = {OPERATORS[i % 11]} (x{i})" for i in range(count))
    inputs = ", ".join(f"float[{i + 2}] x{i}" for i in range(count))
    outputs = ", ".join(f"float[{i + 2}] y{i}" for i in range(count))
    text = f'<ir_version: 10, opset_import: ["" : 18]> main ({inputs}) => ({outputs}) {{ {body} }}'
    return parser.parse_model(text).SerializeToString()


@pytest.mark.parametrize(
    ("count", "target"), [(2, "cpu"), (4, "cpu in workers"), (2, "cuda:sm_90")]
)
def test_a_callback_hears_of_every_pass_step_and_kernel(
    count: int, target: str, monkeypatch: pytest.MonkeyPatch
):
    target, _, workers = target.partition(" ")
    if workers:
        monkeypatch.setattr("compiler.kernels.building.module.WORKERS_PAY", count)
    heard: list[ProgressEvent] = []
    options: Any = {} if target == "cpu" else {"budget": 0}
    module = compiler.compile(
        wide_model(count), target=target, cache=False, progress=heard.append, **options
    )
    steps = [event.name for event in heard if isinstance(event, StepEnded)]
    assert steps[:3] == ["import", "graph passes", "kernels"]
    began = [event.name for event in heard if isinstance(event, PassBegan)]
    assert began == [event.name for event in heard if isinstance(event, PassEnded)]
    assert began[0] == "lower-quantised"
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


def played(display: Any, counter: WorkCounter, events: list[tuple[float, ProgressEvent]]) -> None:
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
    stream, counter = io.StringIO(), WorkCounter()
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
    stream, counter = io.StringIO(), WorkCounter()
    played(PlainDisplay(counter, stream, lambda: TIME[0]), counter, EVENTS[:8] + TUNING)
    assert stream.getvalue().splitlines()[-1] == (
        "flowloom: measuring 3 kernels that no database has, for at most 2.0 s"
    )
    counter = WorkCounter()
    display = TerminalDisplay(counter, Terminal(), lambda: TIME[0])
    played(display, counter, EVENTS[:8] + TUNING)
    bar: Any = display
    (task,) = bar._bar.tasks
    assert (task.completed, task.total) == (4, 9)
    assert task.fields["left"] == "about 2 s left"
    played(display, counter, [(7.0, KernelsBegan(4, 0)), (8.0, KernelEnded("a", 1.0))])
    assert task.fields["left"] == "about 3 s left"
    display.stop()


def test_the_time_left_is_by_size_and_of_the_innermost_step():
    counter = WorkCounter()

    def take(now: float, event: ProgressEvent) -> float | None:
        counter.take(event, now)
        return counter.left(now)

    assert take(0.0, PartsBegan("models", 2)) is None
    assert take(0.0, PartsBegan("weights", 3, size=100)) is None
    assert take(1.0, PartEnded("weights", "large", 1.0, size=80)) == pytest.approx(0.25)
    assert take(1.2, PartEnded("weights", "small", 0.2, size=20)) == 0
    assert take(3.0, PartEnded("models", "first", 3.0)) == pytest.approx(3)
    assert [level.step for level in counter.levels] == ["models"]
    take(3.0, PassBegan("slow"))
    take(3.0, PartsBegan("graphs", 4))
    assert take(5.0, PartEnded("graphs", "", 2.0)) == pytest.approx(6)
    take(5.0, PassEnded("slow", 2.0))
    assert [level.step for level in counter.levels] == ["models"]
    assert take(6.0, StepEnded("models", 6.0)) is None
    assert counter.steps == {"models": 6.0}


def test_parts_are_told_as_the_work_on_them_ends():
    heard: list[ProgressEvent] = []
    with listening(heard.append):
        for part in in_parts("step", ["ab", "c"], str.upper, len):
            heard.append(Announcement(part))
    plain = [event if not isinstance(event, PartEnded) else event.name for event in heard]
    expected = [PartsBegan("step", 2, 3), Announcement("ab"), "AB", Announcement("c"), "C"]
    assert plain == expected


def test_the_slow_work_of_a_gpus_compilation_has_parts(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path))
    heard: list[ProgressEvent] = []
    compiler.compile(wide_model(3), target="cuda:sm_90", budget=0, progress=heard.append)
    ended = Counter(event.step for event in heard if isinstance(event, PartEnded))
    totals = {event.step: event.total for event in heard if isinstance(event, PartsBegan)}
    assert totals.keys() == {"search for substitutions", "compare graphs", "try policies"}
    assert ended == totals


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Whether it is."""
        return True


def test_a_terminal_has_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    TIME[0] = 0.0
    stream, counter = Terminal(), WorkCounter()
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


@pytest.mark.parametrize(
    ("width", "bar", "count"), [(100, True, True), (50, False, True), (30, False, False)]
)
def test_a_narrow_terminal_has_room_for_the_time_left(
    width: int, bar: bool, count: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    counter = WorkCounter()
    display: Any = TerminalDisplay(counter, Terminal(), lambda: TIME[0])
    name = "Conv_Relu_of_a_long_name_01234567890123456789"
    played(display, counter, [(0.0, KernelsBegan(4, 0)), (0.0, KernelBegan("a"))])
    played(display, counter, [(0.0, KernelBegan(name)), (2.0, KernelEnded("a", 2.0))])
    display.stop()
    with display._bar.console.capture() as captured:
        display._bar.console.print(display._bar.make_tasks_table(display._bar.tasks))
    (line,) = captured.get().splitlines()
    assert ("about 6 s left" in line, "━" in line, "1/4" in line) == (True, bar, count)
    assert "kernel 2" in line


def test_a_command_shows_what_fits_its_stream(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with shown_progress(Namespace(quiet=True, timing=False)):
        notify(Announcement("hidden"))
    with shown_progress(Namespace()):
        notify(Announcement("hidden"))
    assert stream.getvalue() == ""
    with shown_progress(Namespace(quiet=False, timing=False)):
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


def test_bench_prints_the_seconds_of_its_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, built = tmp_path / "wide.onnx", str(tmp_path / "built")
    path.write_bytes(wide_model(1))
    assert main(["compile", str(path), "-o", built, "-q"]) == 0
    capsys.readouterr()
    assert main(["bench", built, "--runs", "2", "--json", "--timing", "-q"]) == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert figures["runs"] == 2
    assert [*figures["seconds"]] == ["load", "warm-up", "runs"]
    assert [line.split("  ")[-1] for line in printed.err.splitlines()] == [*figures["seconds"]]


LONG = (
    "compile m",
    "bench m",
    "export d -o p",
    "tune m",
    "tune prepare m -o b",
    "tune measure b -o r",
    "tune merge r",
    "tune status m",
)


@pytest.mark.parametrize("command", LONG)
def test_every_long_command_has_the_same_options(command: str):
    parsed = make_parser().parse_args(with_step([*command.split(), "-q", "--timing", "--json"]))
    assert parsed.quiet
    assert parsed.timing
    assert parsed.json


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
    figures = json.loads(printed.out)
    assert figures["project"] == project
    assert [*figures["seconds"]] == ["read", "write"]
    assert printed.err == ""
    assert main(["export", built, "-o", project]) == 0
    assert f"writing 1 kernel and 0 B of weights to {project}" in capsys.readouterr().err
    assert main(["tune", "prepare", str(path), "-o", str(bundle), "--json"]) == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert figures["bundle"] == str(bundle)
    assert [*figures["seconds"]] == ["prepare"]
    assert "m.onnx" in printed.err
    assert main(["tune", "status", str(path), "--arch", "sm_90", "-q", "--timing", "--json"]) == 0
    printed = capsys.readouterr()
    (row,) = json.loads(printed.out)["models"]
    assert (row["model"], row["target"]) == ("m.onnx", "cuda:sm_90:tf32")
    assert printed.err.splitlines()[0].endswith(" s  coverage")
    assert onnx.load_model_from_string(path.read_bytes()).graph.node
