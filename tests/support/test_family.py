"""A family of processes: one imports, the others are forks of it; all end with the block."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from onnx import parser

import compiler
from compiler.kernels.building import workers
from compiler.support.child_process import receive, send
from compiler.support.family import (
    EARLY,
    Child,
    early_family,
    start_family,
    started_early,
)
from compiler.tools.api import keeping
from tests.support import echo

MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
main (float[4] x) => (float[4] y, float[4] z) { y = Relu (x) z = Exp (x) }
"""


def asked(child: Child, question: str) -> tuple[str, int, int]:
    """The answer of a process."""
    child.wait_until_ready()
    send(child.requests, question)
    return receive(child.answers)


def has_ended(pid: int) -> bool:
    """Whether a process ends within seconds."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("count", [1, 3])
def test_all_answer_for_themselves_and_end(count: int):
    family = start_family(echo.__name__, "serve", count)
    answers = [asked(child, f"question {i}") for i, child in enumerate(family)]
    assert [question for question, _, _ in answers] == [f"question {i}" for i in range(count)]
    pids = [pid for _, pid, _ in answers]
    assert len(set(pids)) == count
    assert [parent for _, _, parent in answers] == [*[pids[-1]] * (count - 1), os.getpid()]
    for child in family:
        child.stop()
    assert all(map(has_ended, pids))


def test_one_that_dies_leaves_the_others():
    first, second, last = start_family(echo.__name__, "serve", 3)
    pid = asked(first, "which")[1]
    first.stop()
    assert has_ended(pid)
    assert asked(second, "one")[0] == "one"
    assert asked(last, "two")[0] == "two"
    second.stop()
    last.stop()


def test_those_stopped_before_they_are_ready_end():
    family = start_family(echo.__name__, "serve", 2)
    for child in family:
        child.stop()
    assert family[1].process is not None
    assert family[1].process.returncode != 0


def test_those_stopped_before_they_are_ready_say_nothing(capfd: pytest.CaptureFixture[str]):
    *forks, first = start_family(echo.__name__, "serve", 3)
    for child in forks:
        child.stop()
    asked(first, "question")
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    assert all(has_ended(int(pid)) for pid in children)
    first.stop()
    assert not capfd.readouterr().err


@pytest.mark.usefixtures("_early")
def test_early_ones_build_the_kernels_of_the_block(monkeypatch: pytest.MonkeyPatch):
    seen = list[list[Child] | None]()
    build = workers.build_in_workers

    def recorded(*arguments: Any) -> Any:
        seen.append(early_family())
        return build(*arguments)

    monkeypatch.setattr("compiler.kernels.building.module.build_in_workers", recorded)
    model = parser.parse_model(MODEL)
    module = compiler.compile(model, cache=False)
    assert len(module.kernels) == 2
    compiler.compile(model, cache=False)
    ((one, last),) = filter(None, seen)
    assert early_family() is None
    assert has_ended(one.pid)
    assert has_ended(last.pid)


@pytest.fixture
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes are started early."""
    assert not EARLY, "the tests' own workers fill the cores"
    monkeypatch.setattr("compiler.support.family.EARLY", True)
    monkeypatch.setattr(keeping, "MOST_WORKERS", 2)
    monkeypatch.delitem(sys.modules, keeping.COMPILATION, raising=False)


@pytest.mark.usefixtures("_early")
def test_one_process_is_none_at_all():
    with started_early(echo.__name__, "serve", 1):
        assert early_family() is None
