"""The search of nodes on the host: every operator has a generator, whose cases pass."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.program.classical import CLASSICAL_FACTORIES, CLASSICAL_FUNCTIONS
from compiler.program.host import text
from compiler.program.host.registry import HOST_OPERATORS
from tests.fuzz import catalogue
from tests.fuzz.case import Case, Failure, load, save
from tests.fuzz.checks import Skipped, check
from tests.fuzz.hosted import HOSTED, case_of

MAPS = {"CastMap", "DictVectorizer"}
"""Operators of dictionaries, of which onnxruntime's binding takes few: tests/program has them."""

SEEDS = 6


def test_every_operator_of_texts_and_classical_models_is_searched():
    texts = {o.op_type for o in HOST_OPERATORS.values() if o.factory.__module__ == text.__name__}
    assert catalogue.FAMILIES
    assert {*CLASSICAL_FUNCTIONS, *CLASSICAL_FACTORIES, *texts} - MAPS <= HOSTED.keys()


@pytest.mark.parametrize("op_type", sorted(HOSTED))
def test_a_few_cases_of_each_operator_pass(op_type: str):
    passed = 0
    for seed in range(SEEDS):
        try:
            assert check(case_of(op_type, seed, "cpu")) is None, seed
            passed += 1
        except Skipped:
            continue
    assert passed


def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch):
    case = case_of("StringConcat", 1, "cpu")
    assert check(case) is None

    def wrong(texts: Any, shape: tuple[int, ...]) -> Any:
        return np.full(shape, "?", object)

    monkeypatch.setattr(text, "object_array", wrong)
    failure = check(case)
    assert failure is not None
    assert failure.key == "wrong"


def test_cases_of_several_runs_are_saved(tmp_path: Path):
    case = next(c for s in range(50) if len((c := case_of("StringSplit", s, "cpu")).later) > 1)
    save(case, Failure("wrong", ""), tmp_path / "case.json")
    again: Case = load(tmp_path / "case.json")
    assert [*map(str, again.later)] == [*map(str, case.later)]
    assert again.model == case.model
