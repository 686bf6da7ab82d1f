"""Every mixture of row-major and blocked tensors gives what the row-major kernel gives."""

import numpy
import pytest

from tests.kernels.harness import evaluate_once
from tests.kernels.layout_cases import CASES, Case, layouts


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.group.name)
def test_layouts_change_no_result(case: Case):
    plain = evaluate_once(case.group, case.inputs)
    variants = list(layouts(case.group))
    assert len(variants) > 1
    for group in variants[1:]:
        for result, expected in zip(evaluate_once(group, case.inputs), plain, strict=True):
            numpy.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
