"""Depthwise convolutions on tensor cores on the emulator, against float64."""

import numpy
import pytest

from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.depthwise_conv.template import Config, DepthwiseConv
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import kernel_in, problem_in
from tests.kernels.gpu.templates.test_grouped import Shape, convolution, draw_inputs, reference
from tests.tools import needs_nvrtc

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
TARGET = parse_gpu("cuda:sm_90:fp16")
ONE, THREE = (1, 1), (3, 3, 3, 3)
CASES = {
    "two blocks": (Shape(16, (9, 11), (7, 7), ONE, ONE, THREE), Config(1, 1)),
    "strides": (Shape(8, (20, 21), (7, 9), (2, 2), ONE, (3, 4, 3, 4), 2), Config(1, 1)),
    "dilations": (Shape(8, (20, 19), (7, 7), ONE, (3, 3), (9, 9, 9, 9)), Config(2, 2)),
    "one axis": (Shape(8, (33, 13), (5, 13), (1, 2), ONE, (2, 6, 2, 6)), Config(1, 1)),
    "larger than the image": (Shape(8, (10, 10), (31, 31), ONE, ONE, (15,) * 4), Config(1, 1)),
    "odd pieces": (Shape(8, (17, 19), (7, 7), ONE, ONE, (0, 0, 0, 0)), Config(1, 2)),
}


@emulated
@pytest.mark.parametrize("name", CASES)
def test_convolved(name: str):
    shape, config = CASES[name]
    group = convolution(shape, "float16")
    inputs = draw_inputs(group)
    kernel = kernel_in("depthwise_conv", group, TARGET, config)
    assert kernel is not None
    (found,) = run_twice(kernel, group, inputs)
    expected = reference(shape, inputs)
    assert numpy.linalg.norm(found - expected) <= 1e-3 * numpy.linalg.norm(expected)


def test_small_windows_and_other_types_are_left_to_others():
    small = Shape(16, (9, 9), (3, 3), ONE, ONE, (1, 1, 1, 1))
    assert problem_in("depthwise_conv", convolution(small, "float16"), TARGET) is None
    large, _ = CASES["two blocks"]
    assert problem_in("depthwise_conv", convolution(large), TARGET) is None


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_nothing_spills(architecture: str):
    target = parse_gpu(f"cuda:{architecture}:fp16")
    group = convolution(Shape(16, (56, 56), (31, 31), ONE, ONE, (15,) * 4), "float16")
    (problem,) = DepthwiseConv().match(group, target)
    configs = DepthwiseConv().configs(problem, target)
    config = min(configs, key=lambda c: DepthwiseConv().estimate_ns(problem, c, target))
    cubin = compile_cubin(
        complete_text(DepthwiseConv().emit(group, problem, config, target).text), target
    )
    assert not any(used.stack_bytes for used in read_resources(cubin).values())
