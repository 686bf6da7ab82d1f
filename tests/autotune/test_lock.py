"""Processes that measure on one device take turns."""

import os
import subprocess
import sys
from collections.abc import Callable
from errno import ENOLCK
from os import getpid
from pathlib import Path
from threading import Timer
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

from compiler.autotune.lock import DeviceTakenError, locked, measuring
from compiler.errors import ArtifactError

HOLDER = """
import sys
from time import monotonic
from types import SimpleNamespace
from compiler.autotune.lock import measuring
with measuring(SimpleNamespace(ordinal=int(sys.argv[1])), 60.0):
    print(monotonic(), flush=True)
    sys.stdin.readline()
    print(monotonic(), flush=True)
"""
ROOT = Path(__file__).parents[2]


def device(ordinal: int) -> Any:
    return SimpleNamespace(ordinal=ordinal)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


class Holder:
    """A process that measures on a device until it is released."""

    def __init__(self, ordinal: int):
        command = [sys.executable, "-c", HOLDER, str(ordinal)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)

    def time(self) -> float:
        """When it began to measure, then when it ended."""
        assert self.process.stdout is not None
        return float(self.process.stdout.readline())

    def release(self) -> None:
        """Let it end."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.close()


def test_the_second_process_waits_for_the_first(folder: Path):
    first = Holder(0)
    first.time()
    with measuring(device(1), 60.0):
        second = Holder(0)
        sleep(0.5)
    first.release()
    ended = first.time()
    assert second.time() >= ended
    second.release()
    second.time()
    assert first.process.wait() == second.process.wait() == 0
    assert list(folder.rglob("measuring-*-0.lock"))


def test_who_is_waited_for_is_said(folder: Path, caplog: pytest.LogCaptureFixture):
    holder = Holder(0)
    holder.time()
    Timer(0.3, holder.release).start()
    with measuring(device(0), 60.0) as waited:
        assert waited > 0.1
    assert holder.process.wait() == 0
    (record,) = caplog.records
    assert f"waiting for process {holder.process.pid} (-c 0; for " in record.getMessage()
    caplog.clear()
    with measuring(device(0), 60.0) as waited:
        assert not waited
        assert not caplog.records, "a lock that is free was waited for"


def test_a_refusal_names_the_holder(tmp_path: Path):
    with (
        locked(tmp_path / "tune", 60.0),
        pytest.raises(ArtifactError, match=rf"^wait for it: process {getpid()} "),
        locked(tmp_path / "tune", 0.0, "wait for it: "),
    ):
        pass


def test_without_a_folder_there_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr("tempfile.tempdir", str(file))
    with measuring(device(0), 0.0) as first, measuring(device(0), 0.0) as second:
        assert (first, second) == (0.0, 0.0)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_without_a_file_there_is_no_lock(folder: Path, make: Callable[[Path], None]):
    with measuring(device(0), 60.0):
        (lock,) = folder.rglob("*.lock")
    lock.unlink()
    make(lock)
    with measuring(device(0), 60.0):
        pass
    with pytest.raises(ArtifactError, match="cannot write"), locked(lock.with_suffix(""), 60.0):
        pass


def test_waiting_ends(folder: Path):
    start = monotonic()
    with (
        measuring(device(0), 60.0),
        pytest.raises(DeviceTakenError, match=rf"is taken: process {getpid()} .* holds"),
        measuring(device(0), 0.3),
    ):
        pass
    assert 0.3 <= monotonic() - start < 5


def test_a_file_system_without_locks_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*arguments: Any) -> None:
        raise OSError(ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(ArtifactError, match=r"cannot lock .*tune\.lock: No locks available; use a"):
        with locked(tmp_path / "tune", 1.0):
            pass
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with measuring(device(0), 1.0) as waited:  # without a lock
        assert waited == 0.0


def test_a_lock_follows_no_link(tmp_path: Path):
    (outside := tmp_path / "outside").write_text("mine")
    (tmp_path / "tune.lock").symlink_to(outside)
    with pytest.raises(ArtifactError, match=r"cannot write .*tune\.lock"):
        with locked(tmp_path / "tune", 1.0):
            pass
    assert outside.read_text() == "mine"
