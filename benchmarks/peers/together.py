"""Rows that are prepared side by side and timed one after another.

Each row has a process, which holds a shared lock of one file while it compiles; to be timed it
needs the lock for itself, until it ends. So no row is timed before all are ready, and one at a
time.
"""

import fcntl
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

OUT_OF_TIME = "out of time"
"""The reason of a process that was killed."""


def start(command: Sequence[str], file: Path, threads: int) -> subprocess.Popen[bytes]:
    """Start the process of a row, which takes `--turn` as the lock that it holds already.

    It has so many threads for PyTorch, as the others compile meanwhile.
    """
    few = dict.fromkeys(("OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"), str(threads))
    lock = os.open(file, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        arguments, env = [*command, "--turn", str(lock)], {**os.environ, **few}
        return subprocess.Popen(arguments, env=env, pass_fds=(lock,), start_new_session=True)
    finally:
        os.close(lock)


def take_turn(lock: int | None) -> None:
    """Wait until all are ready and none is timed; at once without a lock."""
    if lock is not None:
        fcntl.flock(lock, fcntl.LOCK_EX)


def wait_for_all(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> list[str]:
    """The reason why each ended early, or nothing; those that take longer are killed."""
    end = monotonic() + seconds
    return [wait_for(process, max(0.0, end - monotonic())) for process in processes]


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> str:
    """The reason why a process ended early, or nothing; it is killed with its own if it hangs."""
    with suppress(subprocess.TimeoutExpired):
        status = process.wait(min(seconds, 1e6))
        return "" if status == 0 else f"the process ended with status {status}"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return OUT_OF_TIME
