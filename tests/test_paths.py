"""Paths that no file can have, or that are of another kind, through all public functions."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Any

import pytest
from onnx import parser

import compiler
from compiler import FlowloomError, InferenceSession, SessionOptions

STATIC, DYNAMIC = (
    parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> g (float[{size}] x) => (float[{size}] y)'
        " { y = Relu (x) }"
    ).SerializeToString()
    for size in ("3", "n")
)

PATHS: dict[str, Callable[[Path], str]] = {
    "a part too long": lambda folder: str(folder / ("x" * 300)),
    "bytes too many": lambda folder: str(folder / ("é" * 130)),
    "a parent too long": lambda folder: str(folder / ("x" * 300) / "file"),
    "new parents too long": lambda folder: str(folder / "new" / ("x" * 300) / "file"),
    "all too long": lambda folder: str(folder) + "/x" * 3000,
    "almost too long": lambda folder: (str(folder) + "/x" * 3000)[:4095],
    "NUL": lambda folder: str(folder / "a\0b"),
    "a folder": lambda folder: str(folder / "folder"),
    "a file": lambda folder: str(folder / "file"),
    "below a file": lambda folder: str(folder / "file" / "below"),
    "a loop of links": lambda folder: str(folder / "loop"),
    "below a loop of links": lambda folder: str(folder / "loop" / "below"),
    "a link to nothing": lambda folder: str(folder / "dangling"),
    "nothing": lambda folder: str(folder / "missing" / "file"),
    "a FIFO": lambda folder: str(folder / "fifo"),
    "a link to a FIFO": lambda folder: str(folder / "to-fifo"),
    "a socket": lambda folder: str(folder / "socket"),
    "a device": lambda folder: "/dev/zero",
}
"""Paths by what is wrong with them, for one purpose at least."""


READING = ("compile model", "compile schedule", "trusted", "several", "sign ", "load", "session")
"""The beginnings of the calls that read a path: only these get a device."""

SECONDS = 60
"""The time for a call: one that waits for a writer or reads zeros has no end."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of saved modules and a private key."""
    folder = tmp_path_factory.mktemp("saved")
    for name, model in (("static", STATIC), ("dynamic", DYNAMIC)):
        compiler.compile(model, budget=0).save(folder / name)
    return folder


@pytest.fixture(scope="module")
def modules() -> list[Any]:
    """A static module and a dynamic one."""
    return [compiler.compile(model, budget=0) for model in (STATIC, DYNAMIC)]


def session_of(path: str, **options: str) -> None:
    """A session that writes its profile, with options that are paths."""
    given: Any = SessionOptions()
    for name, value in options.items():
        setattr(given, name, value)
    given.enable_profiling = "profile_file_prefix" in options
    InferenceSession(path or STATIC, given).end_profiling()


def calls_with(path: str, modules: list[Any], saved: Path) -> dict[str, Callable[[], Any]]:
    """The public functions that take a path, by name."""
    compiled: Any = compiler.compile
    calls: dict[str, Callable[[], Any]] = {
        f"compile {name}": lambda name=name: compiled(
            **{"model": STATIC, "budget": 0, "target": "cuda", "dynamic": False, name: path}
        )
        for name in ("model", "dump_ir", "profile", "schedule")
    }
    calls["compile dump_ir of a program"] = lambda: compiled(DYNAMIC, budget=0, dump_ir=path)
    calls["compile passes"] = lambda: compiled(STATIC, budget=0, passes=[f"{path}.py:Pass"])
    calls["compile policy"] = lambda: compiled(STATIC, target="cuda", schedule=f"{path}.py:f")
    for name in ("import-schedule", "apply-constraints"):
        pipeline = f'{name}{{file="{path}"}}'
        calls[name] = lambda pipeline=pipeline: compiled(STATIC, target="cuda", pipeline=pipeline)
    for kind, module in zip(("static", "dynamic"), modules, strict=True):
        calls[f"save {kind}"] = lambda module=module: module.save(path)
        calls[f"trusted {kind}"] = lambda kind=kind: compiler.load(saved / kind, trusted=path)
        calls[f"several {kind}"] = lambda kind=kind: compiler.load(saved / kind, trusted=[path])
        calls[f"sign {kind}"] = lambda kind=kind: compiler.sign(saved / kind, path)
    calls["load"] = lambda: compiler.load(path)
    calls["sign"] = lambda: compiler.sign(path, saved / "key.pem")
    calls["session"] = lambda: session_of(path)
    calls["saved by a session"] = lambda: session_of("", optimized_model_filepath=path)
    calls["profile of a session"] = lambda: session_of("", profile_file_prefix=path)
    return calls


@pytest.mark.parametrize("kind", PATHS)
def test_errors_of_paths_are_our_own(
    kind: str, modules: list[Any], saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "to-fifo").symlink_to("fifo")
    with socket(AF_UNIX) as listening:
        listening.bind("socket")  # its absolute path may be too long
    wrong: dict[str, str] = {}
    signal.signal(signal.SIGALRM, _too_long)
    for name, call in calls_with(PATHS[kind](tmp_path), modules, saved).items():
        if kind == "a device" and not name.startswith(READING):
            continue
        signal.alarm(SECONDS)
        try:
            call()
        except FlowloomError as error:
            if "cannot take its arguments" in str(error) or "Errno" in str(error):
                wrong[name] = str(error)[:300]
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {str(error)[:300]}"
        finally:
            signal.alarm(0)
    assert not wrong


def _too_long(*_: object) -> None:
    raise TimeoutError(f"no end in {SECONDS} s")
