"""Sums of long rows in LLVM code: several vectors at a time, and divisions only where they are."""

import re

import numpy
import pytest

from compiler.kernels.cpu.codegen import INTERLEAVED_LOOP, keep_loops
from compiler.kernels.group import TensorInfo
from tests.kernels.harness import evaluate, single

LOOP = """define void @f() {{
for_begin_{name}:                                   ; preds = %entry
  %i = phi i32 [ 0, %entry ], [ %n, %for_next_{name} ]
  %c = icmp slt i32 %i, {extent}
{code}
  br label %for_begin_{name}
}}
"""


@pytest.mark.parametrize(
    ("extent", "code", "interleaved"),
    [
        (INTERLEAVED_LOOP, "  %s = fadd reassoc contract float %a, %b", True),
        (
            INTERLEAVED_LOOP,
            "  %s = call reassoc contract float @llvm.fmuladd.f32(float %a, float %b, float %c)",
            True,
        ),
        (INTERLEAVED_LOOP, "  %s = fadd contract float %a, %b", False),
        (INTERLEAVED_LOOP - 1, "  %s = fadd reassoc contract float %a, %b", False),
    ],
)
def test_long_sums_are_interleaved(extent: int, code: str, interleaved: bool) -> None:
    text = keep_loops(LOOP.format(name="k", extent=extent, code=code))
    (mark,) = re.findall(r"^!900000 = .*$", text, re.M)
    assert ("!899998" in mark) is interleaved


@pytest.mark.parametrize("columns", [INTERLEAVED_LOOP, INTERLEAVED_LOOP + 1, 1000, 1999])
def test_long_rows_are_normalised(columns: int) -> None:
    generator = numpy.random.default_rng(columns)
    x, scale, bias = (
        generator.standard_normal(shape).astype("float32")
        for shape in ((5, columns), (columns,), (columns,))
    )
    group, arrays = single("LayerNormalization", [x, scale, bias], [TensorInfo("float32", x.shape)])
    wide = x.astype("float64")
    centred = wide - wide.mean(axis=1, keepdims=True)
    exact = centred / numpy.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * scale + bias
    numpy.testing.assert_allclose(evaluate(group, arrays)[0], exact, rtol=1e-5, atol=1e-5)
