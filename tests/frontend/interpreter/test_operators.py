"""Random operators: the interpreter against onnxruntime, the ONNX text, and float64.

There are 100 cases of each family, always the same; FLOWLOOM_OPERATOR_CASES asks for another
number of them, which then are new in every run.
"""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests import movement_cases, operator_cases
from tests.frontend.interpreter.comparison import (
    Refused,
    differences,
    evaluate,
    onnxruntime_results,
    rounded_from_float64,
)
from tests.frontend.interpreter.known import is_known
from tests.frontend.interpreter.text import BY_TEXT
from tests.operator_cases import Case, cases

ASKED = os.environ.get("FLOWLOOM_OPERATOR_CASES")
CASES = int(ASKED or 100)
FAMILIES = {**operator_cases.FAMILIES, **movement_cases.FAMILIES}


def check(case: Case) -> None:
    """Fails unless every judge of the case agrees with the interpreter."""
    results = evaluate(case)
    assert not differences(results, rounded_from_float64(case))
    if case.op_type in BY_TEXT and results[0] is not None:
        expected = BY_TEXT[case.op_type](case)
        assert not differences(results[:1], [expected.astype(results[0].dtype)])
    if is_known(case):
        return
    try:
        expected = onnxruntime_results(case)
    except Refused:
        return
    assert not differences(results, expected)


HEALTH_CHECKS: Any = list(HealthCheck)  # whose class says that it yields classes


@pytest.mark.parametrize("family", FAMILIES)
def test_every_judge_agrees(family: str):
    @settings(
        max_examples=CASES,
        deadline=None,
        suppress_health_check=HEALTH_CHECKS,
        database=None,
        derandomize=not ASKED,
    )
    @given(cases(FAMILIES[family]))
    def agrees(case: Case) -> None:
        with np.errstate(all="ignore"):
            check(case)

    agrees()
