"""Every failure that the search found and kept stays repaired; the search's own parts work."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fuzz import differences
from tests.fuzz.__main__ import CASES
from tests.fuzz.case import Failure, load, save
from tests.fuzz.catalogue import FAMILIES
from tests.fuzz.graphs import random_graph
from tests.fuzz.workers import Worker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def worker() -> Generator[Worker, None, None]:
    """A process in which cases may crash."""
    worker = Worker()
    yield worker
    worker.stop()


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_case_is_right(path: Path, worker: Worker):
    outcome = worker.judge(load(path))
    assert outcome.failure is None, outcome.failure.message


def test_the_differences_page_is_fresh():
    page = (ROOT / "docs" / "differences.md").read_text()
    assert page == differences.generate(), "run python -m tests.fuzz.differences"


def test_every_operator_has_a_generator():
    from compiler.frontend.rules import RULES
    from compiler.ir.operators import KINDS

    made_with_others = {"Upsample", "SequenceEmpty", "SequenceInsert", "SequenceLength"}
    within = {"SequenceAt", "SequenceErase", "ConcatFromSequence"}
    assert {*KINDS, *RULES} - FAMILIES.keys() <= made_with_others | within


def test_a_seed_gives_the_same_case(tmp_path: Path):
    first, second = random_graph(5, "cpu"), random_graph(5, "cpu")
    assert first is not None
    assert second is not None
    assert first.model == second.model
    save(first, Failure("key", "message"), tmp_path / "case.json")
    again = load(tmp_path / "case.json")
    assert again.model == first.model
    assert {n: a.tobytes() for n, a in again.feeds.items()} == {
        n: a.tobytes() for n, a in first.feeds.items()
    }
