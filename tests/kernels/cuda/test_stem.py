"""First convolutions of networks on the emulator, against float64, and their choice."""

from dataclasses import replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.cuda.stem import Work, candidates, stem_kernel, stem_problem
from compiler.kernels.cuda.target import parse_cuda_target
from compiler.kernels.group import Group, Operator, TensorInfo
from tests.kernels.cuda.emulator import COMPILER, run_twice
from tests.kernels.cuda.test_grouped import Shape, draw_inputs, reference

PRECISIONS = {"tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
TOLERANCES = {"tf32": 2e-3, "fp16": 2e-3, "bf16": 2e-2}
CASTS = {"float32": 1, "float16": 10, "bfloat16": 16}

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def convolution(shape: Shape, stored: str, block: int = 0, image: str = "float32") -> Group:
    """relu(conv(x, w) + bias + y), of an image and with a result of given types."""
    result = (shape.batch, shape.filters, *shape.output)
    weight = (shape.filters, shape.channels, *shape.kernel)
    given, wide = (shape.batch, shape.channels, *shape.image), TensorInfo("float32", result)
    reads = (
        TensorInfo(image, given),
        TensorInfo(image, weight),
        TensorInfo("float32", (shape.filters,)),
        TensorInfo("float32", result),
    )
    attributes = {
        "strides": list(shape.strides),
        "dilations": list(shape.dilations),
        "pads": list(shape.pads),
    }
    operators = (
        Operator("Cast", {"to": 1}, (0,), (4,)),
        Operator("Cast", {"to": 1}, (1,), (5,)),
        Operator("Conv", attributes, (4, 5, 2), (6,)),
        Operator("Add", {}, (6, 3), (7,)),
        Operator("Relu", {}, (7,), (8,)),
        Operator("Cast", {"to": CASTS[stored]}, (8,), (9,)),
    )
    inner = (TensorInfo("float32", given), TensorInfo("float32", weight), wide, wide, wide)
    values = (*reads, *inner, TensorInfo(stored, result, block))
    return Group("stem", values, 4, (False, True, True, False), {}, operators, (9,))


def check(shape: Shape, precision: str, group: Group, work: Work) -> None:
    """Run on the emulator and compare."""
    inputs = draw_inputs(group)
    kernel = stem_kernel(group, parse_cuda_target(f"cuda:sm_90:{precision}"), work)
    assert kernel is not None
    assert "convolve_stem" in kernel.text
    (result,) = run_twice(kernel, group, inputs)
    bound = TOLERANCES[precision] * (shape.channels * numpy.prod(shape.kernel)) ** 0.5
    expected = reference(replace(shape, members=shape.channels), inputs)
    numpy.testing.assert_allclose(result.astype("float64"), expected, bound, bound)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Small convolutions of few channels whose windows fit at least once."""

    def axes(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(2))

    pads = axes(0, 4) + axes(0, 4)
    filters = draw(st.sampled_from([1, 6, 16, 20, 32, 64]))
    shape = Shape(draw(st.integers(1, 4)), axes(1, 21), axes(1, 7), axes(1, 3), axes(1, 2), pads,
                  draw(st.integers(1, 2)), 0, filters)  # fmt: skip
    return shape if min(shape.output) > 0 else replace(shape, pads=(12,) * 4)


@emulated
@settings(max_examples=12, deadline=None)
@given(shapes(), st.sampled_from(sorted(PRECISIONS)), st.booleans(), st.booleans(), st.data())
def test_any_convolution_is_right(
    shape: Shape, precision: str, blocked: bool, narrow: bool, data: st.DataObject
):
    stored = PRECISIONS[precision]
    block = 4 if stored == "float32" else 8
    block = block if blocked and shape.filters % block == 0 else 0
    group = convolution(shape, stored, block, stored if narrow else "float32")
    target = parse_cuda_target(f"cuda:sm_90:{precision}")
    found = stem_problem(group, target)
    assert found is not None
    works = list(candidates(found[1], target))
    check(shape, precision, group, data.draw(st.sampled_from(works)))
