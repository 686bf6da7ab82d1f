"""Depthwise convolutions of channels-last images on the emulator, against float64."""

from math import prod
from typing import Any

import numpy
import pytest

from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.channels_last_conv.template import ChannelsLastConv, Config
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import kernel_in, problem_in
from tests.kernels.gpu.templates.test_grouped import Shape, draw_inputs, reference
from tests.tools import needs_nvrtc

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
TARGET = parse_gpu("cuda:sm_90:fp16")
Step = tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...]]
"""An operator: its type, attributes, inputs and the shape of its result."""

TOLERANCES = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}
ONE = (1, 1)
CASES = {
    "whole tiles": (Shape(32, (8, 8), (3, 3), ONE, ONE, (1, 1, 1, 1)), "float16", 8, 2),
    "tails": (Shape(24, (7, 9), (3, 3), ONE, ONE, (1, 1, 1, 1), 2), "float16", 8, 2),
    "odd channels": (Shape(13, (6, 5), (5, 5), ONE, (2, 2), (4, 4, 4, 4)), "float16", 1, 2),
    "strides": (Shape(20, (11, 8), (3, 2), (2, 3), ONE, (0, 2, 3, 1), 2), "float32", 4, 1),
    "large window": (Shape(16, (9, 10), (7, 7), ONE, ONE, (3, 3, 3, 3)), "float16", 8, 4),
    "sequence": (Shape(12, (40,), (31,), (2,), (1,), (15, 15), 2), "float32", 4, 4),
    "bfloat16": (Shape(8, (5, 6), (3, 3), ONE, ONE, (1, 1, 1, 1)), "bfloat16", 8, 2),
    "one pixel": (Shape(16, (1, 1), (3, 3), ONE, ONE, (1, 1, 1, 1), 3), "float16", 8, 1),
}


def convolution(shape: Shape, dtype: str, last: bool = True) -> Group:
    """relu(conv(x, w) + bias + y), x with channels last; y and the result too, if so."""
    cast = {"float32": 1, "float16": 10, "bfloat16": 16}[dtype]
    image, result = (
        (shape.batch, shape.channels, *shape.image),
        (shape.batch, shape.channels, *shape.output),
    )
    pixels, ends = prod(shape.image), prod(shape.output)
    flat = (shape.batch, shape.channels, ends)
    stored = (shape.batch, ends, shape.channels) if last else result
    reads = [
        TensorInfo(dtype, (shape.batch, pixels, shape.channels)),
        TensorInfo(dtype, (shape.channels, 1, *shape.kernel)),
        TensorInfo("float32", (shape.channels,)),
        TensorInfo(dtype, stored),
    ]
    steps = {
        "group": shape.groups,
        "strides": list(shape.strides),
        "dilations": list(shape.dilations),
        "pads": list(shape.pads),
    }
    moved: list[Step] = [
        ("Reshape", {}, (9,), flat),
        ("Transpose", {"perm": [0, 2, 1]}, (10,), stored),
    ]
    found: list[Step] = [
        *[("Cast", {"to": 1}, (i,), reads[i].shape) for i in (0, 1, 3)],
        ("Transpose", {"perm": [0, 2, 1]}, (4,), (shape.batch, shape.channels, pixels)),
        ("Reshape", {}, (7,), image),
        ("Conv", steps, (8, 5, 2), result),
        *(moved if last else [("Identity", {}, (9,), result)] * 2),
        ("Add", {}, (11, 6), stored),
        ("Relu", {}, (12,), stored),
        ("Cast", {"to": cast}, (13,), stored),
    ]
    infos = [
        *reads,
        *(TensorInfo("float32", at) for *_, at in found[:-1]),
        TensorInfo(dtype, stored),
    ]
    operators = tuple(
        Node(name, attributes, inputs, (4 + i,))
        for i, (name, attributes, inputs, _) in enumerate(found)
    )
    flags = (False, True, True, False)
    return Group("last", tuple(infos), 4, flags, {}, operators, (len(infos) - 1,))


def expected_of(shape: Shape, inputs: list[numpy.ndarray], last: bool) -> numpy.ndarray:
    """The same in float64."""
    x, w, bias, y = inputs
    result = (shape.batch, shape.channels, *shape.output)
    image = x.transpose(0, 2, 1).reshape(shape.batch, shape.channels, *shape.image)
    other = y.transpose(0, 2, 1).reshape(result) if last else y
    total = reference(shape, [image, w, bias, other])
    return total.reshape(*result[:2], -1).transpose(0, 2, 1) if last else total


@emulated
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_convolved(name: str, last: bool):
    shape, dtype, width, pixels = CASES[name]
    group = convolution(shape, dtype, last)
    problem = problem_in("channels_last_conv", group, TARGET)
    assert (problem.width, problem.last) == (width, last)
    found = [c for c in ChannelsLastConv().configs(problem, TARGET) if c.pixels == pixels]
    inputs = draw_inputs(group)
    kernel = kernel_in("channels_last_conv", group, TARGET, found[-1])
    assert kernel is not None
    (result,) = run_twice(kernel, group, inputs)
    expected = expected_of(shape, inputs, last)
    assert numpy.linalg.norm(result - expected) <= TOLERANCES[dtype] * numpy.linalg.norm(expected)


@emulated
def test_an_image_may_begin_anywhere():
    shape, dtype, *_ = CASES["tails"]
    group = convolution(shape, dtype)
    inputs = draw_inputs(group)
    kernel = kernel_in("channels_last_conv", group, TARGET, Config(2, 1, 1, 2, 2))
    assert kernel is not None
    (result,) = run_twice(kernel, group, inputs, offset=2)
    expected = expected_of(shape, inputs, True)
    assert numpy.linalg.norm(result - expected) <= 1e-3 * numpy.linalg.norm(expected)


def test_the_order_of_results_must_be_that_of_channels_last():
    shape, dtype, *_ = CASES["whole tiles"]
    group = convolution(shape, dtype)
    turned = Node("Transpose", {"perm": [2, 1, 0]}, (10,), (11,))
    operators = tuple(turned if 11 in op.outputs else op for op in group.operators)
    wrong = Group("last", group.values, 4, group.weights, {}, operators, group.outputs)
    assert problem_in("channels_last_conv", wrong, TARGET) is None


@needs_nvrtc
@pytest.mark.parametrize(("dtype", "size"), [("float16", 7), ("bfloat16", 3)])
def test_nothing_spills(dtype: str, size: int):
    shape = Shape(64, (56, 56), (size, size), ONE, ONE, (size // 2,) * 4, 8)
    group = convolution(shape, dtype)
    kernel = kernel_in("channels_last_conv", group, TARGET)
    assert kernel is not None
    cubin = compile_cubin(complete_text(kernel.text), TARGET)
    assert not any(used.stack_bytes for used in read_resources(cubin).values())
