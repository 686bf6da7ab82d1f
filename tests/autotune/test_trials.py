"""A kernel that does not end is killed with the process that tries it, and work goes on."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, cast

import pytest

from compiler.autotune import trials
from compiler.autotune.trials import (
    TRIALS_VARIABLE,
    TrialError,
    Trials,
    TrialUnavailableError,
)
from compiler.backends.emu.device import device
from compiler.backends.gpu.driver import Driver
from compiler.errors import ArgumentError
from tests.autotune.trial_kernels import (
    DOUBLE,
    FOREVER,
    OUTSIDE,
    impatient,
    kernel,
    missing,
    pid,
    task,
)
from tests.kernels.gpu.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

ROOT = Path(__file__).parents[2]


def of(opener: Callable[[], Driver] | None) -> Trials:
    """The trials on a device that is opened so."""
    return Trials(cast(Any, SimpleNamespace(opener=opener)))


@pytest.fixture
def tried() -> Generator[Trials]:
    """The trials on the emulated device."""
    found = Trials(device())
    yield found
    found.close()


def alive(number: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def ends(number: int, seconds: float = 20.0) -> bool:
    """Whether a process ends within some seconds."""
    end = monotonic() + seconds
    while alive(number) and monotonic() < end:
        sleep(0.02)
    return not alive(number)


def test_what_ends_runs_once_in_one_process(tried: Trials):
    first, second = kernel("first", DOUBLE), kernel("second", DOUBLE)
    took = tried.kernel(first, task("first"), 60.0)
    assert took > 0
    process = pid(tried)
    assert tried.kernel(first, task("first"), 60.0) == took
    assert tried.kernel(second, task("second"), 60.0) > 0
    assert pid(tried) == process
    tried.close()
    assert not alive(process)


@pytest.mark.parametrize("indirect", ["", FOREVER])
def test_what_does_not_end_is_killed_and_the_next_one_runs(tried: Trials, indirect: str):
    endless = kernel("endless", DOUBLE if indirect else FOREVER, indirect)
    tried.start()
    process = pid(tried)
    with pytest.raises(TrialError, match="'endless' failed in a trial: a run takes"):
        tried.kernel(endless, task("endless"), 0.3)
    assert not alive(process)
    assert tried.kernel(kernel("next", DOUBLE), task("next"), 60.0) > 0
    assert pid(tried) != process


@pytest.mark.parametrize(
    ("body", "said"),
    [(OUTSIDE, "reads memory outside"), ("__builtin_trap();", r"the process died \(-")],
)
def test_what_fails_leaves_this_process_as_it_was(tried: Trials, body: str, said: str):
    with pytest.raises(TrialError, match=f"'broken' failed in a trial: .*{said}"):
        tried.kernel(kernel("broken", body), task("broken"), 60.0)
    assert tried.kernel(kernel("next", DOUBLE), task("next"), 60.0) > 0


def test_kernels_that_take_too_long_together_are_named(
    tried: Trials, monkeypatch: pytest.MonkeyPatch
):
    specs = {name: kernel(name, DOUBLE, flops=f) for name, f in (("light", 1), ("heavy", 2))}
    tasks = [task(name) for name in specs]
    took = tried.kernels(tasks, specs, 60.0)
    assert [*took] == ["heavy", "light"]
    with pytest.raises(TrialError, match="before 'light'"):
        tried.kernels(tasks, specs, took["heavy"] / 1e9)


def test_an_idle_process_ends_and_another_takes_its_place(monkeypatch: pytest.MonkeyPatch):
    found = of(impatient)
    for name in ("a", "b"):
        assert found.kernel(kernel(name, DOUBLE), task(name), 60.0) > 0
        assert ends(pid(found))
    last = pid(found)
    # it may also end between the question whether it has and the request
    late = iter([False])
    ended = property(lambda _: next(late, True))
    monkeypatch.setattr(trials._Child, "ended", ended)  # pyright: ignore[reportPrivateUsage]
    assert found.kernel(kernel("c", DOUBLE), task("c"), 60.0) > 0
    assert pid(found) != last
    found.close()


def test_a_device_that_another_process_cannot_use_is_said_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    spec = kernel("first", DOUBLE)
    said = f"exclusive mode.* set {TRIALS_VARIABLE}=off"
    with pytest.raises(TrialUnavailableError, match=said):
        of(missing).kernel(spec, task("first"), 60.0)
    monkeypatch.setenv(TRIALS_VARIABLE, "off")
    assert of(missing).kernel(spec, task("first"), 60.0) == 0
    assert "a kernel that does not end" in caplog.text
    monkeypatch.setenv(TRIALS_VARIABLE, "false")
    with pytest.raises(ArgumentError, match="it must be on or off"):
        of(missing)


def test_a_process_that_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(TrialUnavailableError, match=f"cannot be started.*{TRIALS_VARIABLE}=off"):
        Trials(device()).start()


SCRIPT = """
import sys
from compiler.autotune.trials import TrialError, Trials
from compiler.backends.emu.device import device
from tests.autotune.trial_kernels import DOUBLE, FOREVER, kernel, pid, task
print("once", flush=True)
trials = Trials(device())
trials.kernel(kernel("first", DOUBLE), task("first"), 60.0)
print(pid(trials), flush=True)
if len(sys.argv) > 1:
    trials.kernel(kernel("endless", FOREVER), task("endless"), 600.0)
"""


def script(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A user's script without a guard of its main part, next to a file named as one of Python's."""
    path = folder / "script.py"
    path.write_text(SCRIPT)
    (folder / "types.py").write_text("raise ImportError('not the types that Python means')")
    found = os.pathsep.join(filter(None, [*map(os.path.abspath, sys.path), str(ROOT)]))
    return subprocess.Popen(
        [sys.executable, path, *arguments],
        env={**os.environ, "PYTHONPATH": found},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_script_without_a_guard_runs_once_and_leaves_no_process(tmp_path: Path):
    running = script(tmp_path)
    output, _ = running.communicate(timeout=100)
    once, number = output.split()
    assert (running.returncode, once) == (0, "once")
    assert ends(int(number))


def test_an_endless_kernel_ends_with_the_process_that_tries_it(tmp_path: Path):
    running = script(tmp_path, "endless")
    assert running.stdout is not None
    assert running.stdout.readline() == "once\n"
    number = int(running.stdout.readline())
    sleep(1.0)  # the kernel has been sent, and runs
    assert alive(number)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=60)
    assert ends(number)
