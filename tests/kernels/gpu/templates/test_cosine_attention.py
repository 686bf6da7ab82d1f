"""Attention of cosines: kernels divide dot products by the norms of rows of Q and K."""

from dataclasses import replace

import pytest

from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import check_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.attention.config import Config
from compiler.target.target import parse_gpu
from tests.kernels.attention_models import Attention
from tests.kernels.gpu.of_template import kernel_in, key_text, problem_in
from tests.kernels.gpu.templates.test_attention import BOUNDS, attention_group, emulated, error
from tests.kernels.gpu.templates.test_staged_attention import (
    arrays,
    difference,
    expected,
    result,
    short_group,
    staged_kernel,
)
from tests.tools import needs_nvrtc

COSINE = Attention("heads", "each", 2, 2, 20, 37, 24, 40, cosine=True)


@emulated
@pytest.mark.parametrize("form", ["heads", "merged", "columns"])
def test_forms(form: str):
    assert error(replace(COSINE, form=form)) < BOUNDS["tf32"]


@emulated
@pytest.mark.parametrize(
    ("case", "block"),
    [
        (COSINE, Config(2, 2, 2)),
        (COSINE, Config(1, 1, 2, 32)),
        (replace(COSINE, form="packed", mask="windows", rows=33), Config(2, 2, 2, 16)),
        (replace(COSINE, mask="none", depth=160, width=24), Config(1, 1, 2, 64)),
    ],
)
def test_two_byte_operands(case: Attention, block: Config):
    group = short_group(case)
    inputs = arrays(case, group)
    found = result(group, staged_kernel(group, block), [*inputs.values()])
    assert difference(found, expected(case, inputs)) < BOUNDS["fp16"]


@emulated
def test_deep_heads():
    assert error(replace(COSINE, depth=160, width=24)) < BOUNDS["tf32"]


@needs_nvrtc
@pytest.mark.parametrize("precision", ["fp16", "tf32"])
def test_nothing_spills(precision: str):
    case, target = replace(COSINE, depth=128, width=128), parse_gpu(f"cuda:sm_90:{precision}")
    group = short_group(case) if precision == "fp16" else attention_group(case)[0]
    kernel = kernel_in("attention", group, target)
    assert kernel is not None
    code = compile_cubin(complete_text(kernel.text), target)
    (found,) = check_resources(code, kernel.launches, target).values()
    assert found.stack_bytes == 0


def test_cosines_have_separate_database_entries():
    target = parse_gpu("cuda:sm_90:tf32")
    cases = (COSINE, replace(COSINE, cosine=False))
    problems = [problem_in("attention", attention_group(case)[0], target) for case in cases]
    first, second = (key_text("attention", problem, target) for problem in problems)
    assert first != second
