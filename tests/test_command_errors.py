"""Whatever goes wrong on the command line is one line, with an exit status that says so."""

import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

import compiler
from compiler.errors import ArtifactError
from compiler.export.choice_json import choice_from_json
from compiler.passes import PASSES
from compiler.tools import cli, commands
from compiler.tools.cli import main
from compiler.tools.commands import first_sentence


def test_the_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"flowloom {compiler.__version__}\n"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, "flowloom: interrupted\n"),
        (PermissionError(13, "Permission denied", "f"), 1, "PermissionError: f: Permission denied"),
        (MemoryError("7 bytes"), 1, "flowloom: out of memory: 7 bytes\n"),
        (RecursionError("deep"), 1, "internal error: RecursionError: deep (FILE, line "),
        (KeyError("a\nb"), 1, "internal error: KeyError: 'a\\nb' (FILE, line "),
    ],
)
def test_any_exception_is_one_line(
    error: BaseException,
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(commands, "passes_command", fail)
    assert main(["passes"]) == status
    printed = capsys.readouterr().err
    assert message.replace("FILE", __file__) in printed
    assert printed.count("\n") == 1
    with pytest.raises(type(error)):
        main(["--debug", "passes"])


@pytest.mark.parametrize(
    "command",
    [
        ["run", "DEEP"],
        ["check", "DEEP"],
        ["opt", "DEEP"],
        ["run", "FOLDER"],
        ["check", "FOLDER"],
        ["report", "FOLDER"],
        ["report", "DEEP"],
        ["opt", "FOLDER"],
        ["trace", "FOLDER", "-o", "t.json"],
        ["export", "FOLDER", "-o", "p"],
        ["export", "DEEP", "-o", "p"],
        ["compile", "FOLDER", "-o", "o"],
        ["compile", "MODEL", "-o", "o", "--schedule", "DEEP"],
        ["compile", "MODEL", "-o", "o", "--schedule", "FOLDER"],
        ["compile", "MODEL", "-o", "o", "--target", "cuda", "--profile", "DEEP", "--budget", "0"],
        ["run", "MODEL", "--inputs", "FOLDER"],
        ["run", "MODEL", "--inputs", "DEEP"],
        ["run", "UNDECODABLE"],
        ["run", "MODEL", "--outputs", "FOLDER"],
        ["run", "MODEL", "--pass", "FOLDER.py:A"],
        ["tune", "merge", "DEEP", "-o", "db.json"],
        ["tune", "measure", "DEEP", "-o", "db.json"],
    ],
    ids=" ".join,
)
def test_files_that_are_something_else_are_one_line(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    Path("FOLDER").mkdir()
    Path("DEEP").write_text("[" * 100_000)
    Path("MODEL").write_bytes(RELU)
    assert main([argument.replace("UNDECODABLE", "\udcff") for argument in command]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flowloom: ")
    assert "internal error" not in error
    assert error.count("\n") == 1


def test_a_damaged_record_of_the_choice_is_named():
    choice: dict[str, Any] = {"mode": "graph", "costs": {}, "chosen": "graph", "source": "model"}
    with pytest.raises(ArtifactError, match=r"manifest: choice\.kernels is not an object"):
        choice_from_json(choice, "manifest: choice")


def _relu() -> bytes:
    from onnx import parser

    head = '<ir_version: 10, opset_import: ["" : 18]>'
    text = "main (float[2] x) => (float[2] y) { y = Relu (x) }"
    return parser.parse_model(head + text).SerializeToString()


RELU = _relu()


def test_names_that_are_no_text_can_be_printed(tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes(RELU)
    program = [sys.executable, "-m", "compiler.tools.cli", "compile", "model.onnx", "-o", b"o\xff"]
    path = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    ran = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.startswith(b"o\\udcff: ")


WAITS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start tests without it
from compiler.kernels import workers
from compiler.tools import cli, commands
def wait(_):
    worker = workers.Worker()
    print("ready", flush=True)
    try:
        worker.process.wait()
    finally:
        worker.stop()
commands.passes_command = wait
sys.exit(cli.main(["passes"]))
"""


def test_an_interrupt_is_one_line_also_with_workers():
    path = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    running = subprocess.Popen(
        [sys.executable, "-c", WAITS],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.3)  # the worker imports what it needs
    os.killpg(running.pid, signal.SIGINT)
    _, error = running.communicate(timeout=60)
    assert (running.returncode, error) == (130, "flowloom: interrupted\n")


def test_passes_are_listed_in_whole_sentences(capsys: pytest.CaptureFixture[str]):
    assert main(["passes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for kind in PASSES.values():
        sentence = first_sentence(kind)
        assert sentence.endswith(".")
        assert f"    {sentence}" in lines


def test_the_first_sentence_may_span_lines():
    class Long:
        """It has e.g. one sentence of
        two lines. And another."""

    assert first_sentence(Long) == "It has e.g. one sentence of two lines."


def test_steps_are_timed_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "model.onnx").write_bytes(RELU)
    assert main(["run", str(tmp_path / "model.onnx"), "--timing"]) == 0
    steps = [line.split(" s  ")[1] for line in capsys.readouterr().err.splitlines()]
    assert steps[:3] == ["import", "graph passes", "kernels"]


@pytest.mark.parametrize("text", ["x=1,,3", "x=1,3,", "x", "=1", "x=1,a", "x=1.5"])
def test_a_shape_of_another_form_is_refused(text: str):
    with pytest.raises(ArgumentTypeError, match="is not of the form NAME=1,3,224,224"):
        cli.input_shape(text)


def test_a_shape_may_be_empty_or_hold_nothing():
    assert cli.input_shape("x=") == ("x", ())
    assert cli.input_shape("a=b=0,3") == ("a=b", (0, 3))


def test_the_exit_status_of_an_interrupt_is_a_shells():
    assert cli.INTERRUPTED == 128 + signal.SIGINT
