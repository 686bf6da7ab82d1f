"""Random operators: the interpreter against onnxruntime, the ONNX text, and float64.

There are 100 cases of each family, always the same; FLOWLOOM_OPERATOR_CASES asks for another
number of them, which then are new in every run.
"""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from onnx import helper

from compiler.frontend.evaluate import infer_types
from compiler.frontend.graph import constant
from compiler.net.operators import KINDS, OPERATORS
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
from tests.operator_cases import OPSET, Array, Case, Draw, cases

ASKED = os.environ.get("FLOWLOOM_OPERATOR_CASES")
CASES = int(ASKED or 100)
FAMILIES = {**operator_cases.FAMILIES, **movement_cases.FAMILIES}
INFERENCE_KNOWS_LESS = ("GroupNormalization", "MeanVarianceNormalization", "OneHot")


def _check_types(case: Case, results: list[Array | None]) -> None:
    """The results have the types that onnx infers."""
    inputs = [None if a is None else constant("x", np.asarray(a)) for a in case.inputs]
    names = [f"o{i}" for i in range(case.outputs)]
    types = infer_types(case.op_type, inputs, case.attributes, names, OPSET)
    for array, type in zip(results, types, strict=True):
        tensor = type.tensor_type
        assert array is not None
        assert array.dtype == helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        assert array.shape == tuple(d.dim_value for d in tensor.shape.dim)


def check(case: Case) -> None:
    """Fails unless every judge of the case agrees with the interpreter."""
    results = evaluate(case)
    if case.op_type not in INFERENCE_KNOWS_LESS and not OPERATORS[case.op_type].domain:
        _check_types(case, results)
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


def test_the_families_hold_every_operator():
    drawn = {family(Draw(seed)).op_type for family in FAMILIES.values() for seed in range(300)}
    own = {"ConvFloat8", "MatMulFloat8", "PartialRanges", "Recurrence"}
    own |= {"ScatterOrder", "SegmentSum"}
    assert drawn == set(KINDS) - own
