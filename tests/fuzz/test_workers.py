"""Workers of the search end with the process that started them, whatever they are doing."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

ROOT = Path(__file__).parents[2]

PARENT = """
import os, sys
from tests.fuzz.workers import Worker

class Endless:
    def __reduce__(self):
        return sum, (range(10**13),)  # unpickled, it holds the interpreter's lock

if __name__ == "__main__":
    worker = Worker()
    worker._start()
    print(worker._process.pid, flush=True)
    if sys.argv[1] == "busy":
        worker._connection.send(("judge", Endless()))
    sys.stdin.read()
"""


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie that nobody has waited for."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_workers_end_when_their_parent_is_killed(tmp_path: Path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    for state in ("idle", "busy"):
        parent = subprocess.Popen(
            [sys.executable, str(script), state],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        try:
            sleep(2)  # it has begun to sum
            assert is_running(worker), state
            parent.kill()
            parent.wait()
            until = monotonic() + 10
            while is_running(worker) and monotonic() < until:
                sleep(0.05)
            assert not is_running(worker), state
        finally:
            if is_running(worker):
                os.kill(worker, signal.SIGKILL)
