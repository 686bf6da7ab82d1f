"""The search of `python -m tests.fuzz all` with a fresh seed, and the parts of the command.

FLOWLOOM_FUZZ_SEED repeats a run, of as many cases on any machine; FLOWLOOM_FUZZ_ROUNDS (default 1)
asks for more. The deep tests search for an hour.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.support.caches import COMPILED_VARIABLE
from tests.fuzz.__main__ import parser, search
from tests.fuzz.kinds import KINDS, ROUND, SHARES
from tests.fuzz.search import Plan
from tests.fuzz.workers import seeds

ROUNDS = ("--rounds", os.environ.get("FLOWLOOM_FUZZ_ROUNDS", "1"))
HOUR = pytest.param(("--seconds", "3600"), marks=pytest.mark.deep)


@pytest.mark.parametrize("length", [ROUNDS, HOUR], ids=["rounds", "an hour"])
def test_nothing_is_found(
    length: tuple[str, str], tmp_path: Path, record_property: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.delenv(COMPILED_VARIABLE, raising=False)  # no text comes again
    options = {
        length[0]: length[1],
        "--jobs": "2",
        "--seed": os.environ["FLOWLOOM_FUZZ_SEED"],
        "--keep": str(tmp_path),
    }
    words = [word for option in options.items() for word in option]
    reports = search(parser().parse_args(["all", *words]))
    for report in reports:
        record_property("search", report.line())
    failed = [report.line() for report in reports if report.counts["failed"]]
    assert not failed, f"FLOWLOOM_FUZZ_SEED={options['--seed']}; see {tmp_path}"
    assert all(report.counts["passed"] for report in reports)


def test_every_kind_has_a_share_and_a_part_of_a_round():
    assert KINDS.keys() == SHARES.keys() == ROUND.keys()


def test_the_command_of_a_failure_draws_its_case_alone():
    plan = Plan("damage", 5, 1.0, guarded=True)
    asked = parser().parse_args(plan.again(9).removeprefix("python -m tests.fuzz ").split())
    assert (asked.kind, asked.seed, asked.cases, asked.guarded) == ("damage", 9, 1, True)


def test_a_slow_machine_draws_a_few_cases_of_each_kind():
    assert list(seeds(3, 2, 0.0, None)) == [3, 5, 7, 9]
    assert list(seeds(3, 2, 0.0, 1)) == [3]
