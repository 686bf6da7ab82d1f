"""Whatever goes wrong on the command line is one line, with an exit status that says so."""

import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.artifact.choice_json import choice_from_json
from compiler.artifact.replaceable import check_replaceable
from compiler.errors import ArtifactError, DeviceError
from compiler.passes import PASSES
from compiler.tools.cli import main
from compiler.tools.cli.commands import passes
from compiler.tools.cli.commands.passes import first_sentence
from compiler.tools.cli.main import INTERRUPTED
from compiler.tools.cli.option_types import input_shape
from compiler.tools.outputs import check_file


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

    monkeypatch.setattr(passes, "run", fail)
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
    monkeypatch.setattr("compiler.tools.progress.display.QUIET_SECONDS", 1e9)
    Path("FOLDER").mkdir()
    Path("DEEP").write_text("[" * 100_000)
    Path("MODEL").write_bytes(RELU)
    assert main([argument.replace("UNDECODABLE", "\udcff") for argument in command]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flowloom: ")
    assert "internal error" not in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["compile", "MODEL", "-o", "FILE"], "FILE exists and is not an artifact: choose another"),
        (["compile", "MODEL", "-o", "FULL"], "FULL exists and is not an artifact: choose another"),
        (["compile", "MODEL", "-o", "FILE/a/b"], "cannot write FILE/a/b: "),
        (["run", "MODEL", "--outputs", "no/o.npz"], "there is no directory no; make it"),
        (["run", "MODEL", "--outputs", "FULL"], "it is a directory; name a file in it"),
        (["trace", "MODEL", "-o", "no/t.json"], "there is no directory no; make it"),
        (["explore", "MODEL", "-o", "FULL"], "it is a directory; name a file in it"),
        (["tune", "prepare", "MODEL", "-o", "no/b"], "there is no directory no; make it"),
        (["run", "MODEL", "--outputs", "FIFO"], "FIFO: it is not a file; name another"),
        (["compile", "MODEL", "-o", "FIFO"], "FIFO exists and is not an artifact: choose another"),
        (["compile", "MODEL", "-o", "LINK"], "LINK exists and is not an artifact: choose another"),
        (["compile", "MODEL", "-o", "MIXED"], "MIXED/notes does not belong to the artifact there"),
        (["compile", "MODEL", "-o", "PROGRAM"], "PROGRAM/notes does not belong to the program"),
        (["compile", "MODEL", "-o", "LINK/a"], "LINK is not a directory"),
        (["compile", "MODEL", "-o", "/"], "cannot write /, which is above all: name a directory"),
        (["export", "FULL", "-o", "/"], "cannot write /, which is above all: name a directory"),
        (["opt", "none.mlir", "--dump-ir", "FILE"], "cannot read none.mlir"),
        (["export", "FULL", "-o", "FILE"], "FILE exists and is not an exported project"),
        (["export", "FULL", "-o", "FULL"], "FULL exists and is not an exported project"),
        (["export", "FULL", "-o", "FIFO"], "FIFO exists and is not an exported project"),
        (["export", "FULL", "-o", "LINK"], "LINK is a link: name the directory that it leads to"),
        (["export", "FULL", "-o", "FILE/a"], "FILE is not a directory"),
        (["report", "FULL", "-o", "FULL"], "it is a directory; name a file in it"),
        (["report", "FULL", "-o", "no/r"], "there is no directory no; make it"),
        (["report", "FULL", "-o", "FIFO"], "FIFO: it is not a file; name another"),
        (["trace", "MODEL", "-o", "FIFO"], "FIFO: it is not a file; name another"),
        (["explore", "MODEL", "-o", "FIFO"], "FIFO: it is not a file; name another"),
        (["tune", "prepare", "MODEL", "-o", "FIFO"], "FIFO: it is not a file; name another"),
        (["bisect", "MODEL", "-o", "FILE"], "cannot write to FILE: it is not a directory"),
        (["bisect", "MODEL", "-o", "FILE/a"], "FILE is not a directory"),
        (["bisect", "MODEL", "-o", "REPRO"], "repro.npz: it is a directory; name a file in it"),
        (["run", "MODEL", "--inputs", "none.npz"], "cannot read inputs from none.npz: No such"),
        (["bench", "MODEL", "--inputs", "FILE"], "cannot read inputs from FILE: File is not a zip"),
        (
            ["trace", "MODEL", "-o", "t", "--inputs", "FULL"],
            "cannot read inputs from FULL: it is a directory",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_found_before_the_work(
    command: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def work(*_: Any, **__: Any) -> None:
        pytest.fail("the model was compiled")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compiler, "compile", work)
    monkeypatch.setattr("compiler.autotune.kernels.prepare.prepare_bundle", work)
    Path("FULL").mkdir()
    Path("FULL/notes").touch()
    Path("FILE").touch()
    os.mkfifo("FIFO")
    Path("LINK").symlink_to("nowhere")
    Path("REPRO/repro.npz").mkdir(parents=True)
    for name, file, kind in (("MIXED", "manifest", "artifact"), ("PROGRAM", "program", "program")):
        Path(name).mkdir()
        Path(name, "notes").touch()
        Path(name, f"{file}.json").write_text(f'{{"format": "flowloom-{kind}", "files": {{}}}}')
    assert main(command) == 1
    assert message in capsys.readouterr().err


def test_what_may_be_replaced_may_be_named(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "artifact").mkdir()
    (tmp_path / "artifact" / "manifest.json").write_text('{"format": "flowloom-artifact"')
    for name in ("empty", "artifact", "new", "new/below"):
        check_replaceable(tmp_path / name)
    (tmp_path / "file").touch()
    for name in ("file", "new"):
        check_file(tmp_path / name)


def test_a_dynamic_module_is_not_saved_over_a_file(tmp_path: Path):
    model = compiler.compile(_relu("n"))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ArtifactError, match="exists and is not an artifact"):
        model.save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_module_may_replace_one_of_the_other_kind(tmp_path: Path):
    static, dynamic = compiler.compile(_relu("2"), budget=0), compiler.compile(_relu("n"), budget=0)
    dynamic.run({"x": np.ones(1000, np.float32)})
    for module in (static, dynamic, static, dynamic):
        module.save(tmp_path / "saved")
        assert type(compiler.load(tmp_path / "saved")) is type(module)
        check_replaceable(tmp_path / "saved")
    (tmp_path / "saved" / "segments" / "notes").touch()
    with pytest.raises(ArtifactError, match="notes does not belong to the program there"):
        static.save(tmp_path / "saved")


def test_a_session_checks_where_its_model_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def work(*_: Any, **__: Any) -> None:
        pytest.fail("the model was compiled")

    (tmp_path / "file").touch()
    monkeypatch.setattr(compiler, "compile", work)
    options = compiler.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "file")
    with pytest.raises(ArtifactError, match="exists and is not an artifact"):
        compiler.InferenceSession(_relu("2"), options)


def test_a_run_without_its_device_ends_before_the_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def absent(*_: Any) -> None:
        raise DeviceError("no CUDA driver")

    def work(*_: Any, **__: Any) -> None:
        pytest.fail("the model was compiled")

    monkeypatch.setattr("compiler.backends.cuda.build.device", absent)
    monkeypatch.setattr(compiler, "compile", work)
    for command in ("run", "bench"):
        assert main([command, str(tmp_path / "model.onnx"), "--target", "cuda:sm_90"]) == 1
        assert "no CUDA driver" in capsys.readouterr().err
        monkeypatch.setattr("compiler.backends.cpu.features.host_instruction_set", lambda: "abacus")
        for options in (["--target", "cpu:x86-64-v3"], ["--target", "cpu", "--arch", "aarch64"]):
            assert main([command, str(tmp_path / "model.onnx"), *options]) == 1
            assert "this is abacus: compile the model on this host" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ([], 2, "usage: flowloom"),
        (["tune", "status", "zoo:unet"], 1, "zoo:unet: tune takes ONNX files, and folders of them"),
        (["report", "."], 1, "`flowloom compile MODEL -o DIR` makes one"),
        (["compile", "MODEL", "--schedule", "none"], 1, "cannot read the schedule none: No such"),
        (["run", "MODEL", "--inputs", "MODEL"], 1, "File is not a zip file; it must be what numpy"),
    ],
)
def test_an_error_says_what_to_do(
    command: list[str],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    Path("MODEL").write_bytes(RELU)
    assert main(command) == status
    assert message in capsys.readouterr().err


def test_tuning_without_models_asks_for_models(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        main(["tune"])
    assert "required: MODEL|DIR" in capsys.readouterr().err


def test_a_damaged_record_of_the_choice_is_named():
    choice: dict[str, Any] = {"mode": "graph", "costs": {}, "chosen": "graph", "source": "model"}
    with pytest.raises(ArtifactError, match=r"manifest: choice\.question is not a string"):
        choice_from_json(choice, "manifest: choice")


def _relu(size: str = "2") -> bytes:
    from onnx import parser

    head = '<ir_version: 10, opset_import: ["" : 18]>'
    text = f"main (float[{size}] x) => (float[{size}] y) {{ y = Relu (x) }}"
    return parser.parse_model(head + text).SerializeToString()


RELU = _relu()


def test_names_that_are_no_text_can_be_printed(tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes(RELU)
    program = [sys.executable, "-m", "compiler", "compile", "model.onnx", "-o", b"o\xff"]
    path = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    ran = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    assert b"Traceback" not in ran.stderr  # a build that takes long says so there
    assert ran.stdout.startswith(b"o\\udcff: ")


WAITS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start tests without it
from compiler.kernels.building import workers
from compiler.tools import cli
from compiler.tools.cli.commands import passes
def wait(_):
    pool = workers.WorkerPool.of(2)
    print("ready", flush=True)
    try:
        with pool.one():
            signal.pause()
    finally:
        pool.stop()
passes.run = wait
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
        input_shape(text)


def test_a_shape_may_be_empty_or_hold_nothing():
    assert input_shape("x=") == ("x", ())
    assert input_shape("a=b=0,3") == ("a=b", (0, 3))


def test_the_exit_status_of_an_interrupt_is_a_shells():
    assert INTERRUPTED == 128 + signal.SIGINT
