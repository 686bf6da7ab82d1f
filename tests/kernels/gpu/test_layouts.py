"""Blocked tensors in CUDA kernels, on the emulator: numbers, launches and coalesced stores."""

from collections.abc import Sequence

import numpy
import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.group import Group
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, emulate_all
from tests.kernels.harness import evaluate
from tests.kernels.layout_cases import CASES, Case, layouts

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp32")


def check(case: Case, group: Group, results: Sequence[numpy.ndarray]) -> None:
    """Compare with the row-major kernel on the CPU."""
    for result, expected in zip(results, evaluate(case.group, case.inputs), strict=True):
        numpy.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=group.name)


def test_layouts_change_no_result():
    pairs = [(case, group) for case in CASES for group in layouts(case.group)]
    built = [(generate(group, TARGET), group, case.inputs) for case, group in pairs]
    generic = [i for i, (kernel, _, _) in enumerate(built) if "struct Problem" not in kernel.text]
    assert len(generic) > 60
    for i, results in zip(generic, emulate_all([built[i] for i in generic]), strict=True):
        check(*pairs[i], results)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.group.name)
def test_layouts_add_no_launch(case: Case):
    """Parts of several sizes are one launch where none is in blocks, else one each at most."""
    plain, *others = [len(generate(group, TARGET).launches) for group in layouts(case.group)]
    assert max(others) <= max(plain, len(case.group.writes))
