"""Rows that are prepared side by side are timed when all are ready, one at a time."""

import sys
from pathlib import Path

import pytest

from benchmarks.peers.together import start, take_turn, wait_for_all

ROW = """
import sys
from pathlib import Path
from time import sleep
from benchmarks.peers.together import take_turn
name, seconds, log, turn = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[5])
def say(what):
    with log.open("a") as file:
        file.write(f"{what} {name}\\n")
sleep(seconds)
say("ready")
take_turn(turn)
say("begins")
sleep(0.05)
say("ends")
sys.exit(name == "b")
"""


def test_all_are_ready_before_one_is_timed_and_one_is_timed_at_a_time(tmp_path: Path):
    log = tmp_path / "log"
    seconds = {"a": 0.0, "b": 0.2, "c": 0.1}
    processes = [
        start([sys.executable, "-c", ROW, name, str(wait), str(log)], tmp_path / "lock", 1)
        for name, wait in seconds.items()
    ]
    assert wait_for_all(processes, 60) == ["", "the process ended with status 1", ""]
    steps = [line.split() for line in log.read_text().splitlines()]
    assert [what for what, _ in steps] == ["ready"] * 3 + ["begins", "ends"] * 3
    assert all(
        first[1] == second[1] for first, second in zip(steps[3::2], steps[4::2], strict=True)
    )


def test_a_row_that_hangs_is_killed_and_lets_the_others_go_on(tmp_path: Path):
    hangs = "import time; time.sleep(60)"
    waits = (
        "import sys; from benchmarks.peers.together import take_turn; take_turn(int(sys.argv[2]))"
    )
    slow = start([sys.executable, "-c", hangs], tmp_path / "lock", 1)
    other = start([sys.executable, "-c", waits], tmp_path / "lock", 1)
    assert wait_for_all([slow], 0.5) == ["out of time"]
    assert wait_for_all([other], 30) == [""]


def test_without_a_lock_there_is_nothing_to_wait_for(monkeypatch: pytest.MonkeyPatch):
    asked: list[object] = []

    def flock(descriptor: int, _: int) -> None:
        asked.append(descriptor)

    monkeypatch.setattr("fcntl.flock", flock)
    take_turn(None)
    assert not asked
    take_turn(7)
    assert len(asked) == 1
