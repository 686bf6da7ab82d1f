"""Convolutions in groups of few channels on the emulator, against float64, and their choice."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.grouped_conv.template import (
    Config as Work,
)
from compiler.kernels.gpu.templates.grouped_conv.template import (
    read_grouped,
)
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import estimated, kernel_in

TARGET = parse_gpu("cuda:sm_90:tf32")
BLOCKS = {"float32": 4, "float16": 8, "bfloat16": 8}
CASTS = {"float32": 1, "float16": 10, "bfloat16": 16}
TOLERANCES = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


@dataclass(frozen=True)
class Shape:
    """A convolution with `members` inputs and `filters` outputs a group, by an entry an axis."""

    channels: int
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    batch: int = 1
    members: int = 1
    filters: int = 1

    @property
    def groups(self) -> int:
        """Groups of channels."""
        return self.channels // self.members

    @property
    def output(self) -> tuple[int, ...]:
        """The spatial extents of the result; not positive where the window does not fit."""
        rank = len(self.image)
        pads = zip(self.pads[:rank], self.pads[rank:], strict=True)
        rows = zip(self.image, pads, self.kernel, self.dilations, self.strides, strict=True)
        return tuple((n + sum(p) - (k - 1) * d - 1) // s + 1 for n, p, k, d, s in rows)


def residual_convolution(attributes: Mapping[str, Any], stored: str) -> tuple[Node[int], ...]:
    """relu(conv(0, 1) + 2 + 3) of reads of any type, cast to the one that is stored."""
    return (
        Node("Cast", {"to": 1}, (0,), (4,)),
        Node("Cast", {"to": 1}, (1,), (5,)),
        Node("Conv", attributes, (4, 5, 2), (6,)),
        Node("Add", {}, (6, 3), (7,)),
        Node("Relu", {}, (7,), (8,)),
        Node("Cast", {"to": CASTS[stored]}, (8,), (9,)),
    )


def convolution(
    shape: Shape, dtype: str = "float32", block: int | None = None, plain: bool = False
) -> Group:
    """relu(conv(x, w) + bias + y), with x and perhaps the result in blocks; borders are cast."""
    outer = BLOCKS[dtype] if block is None else block
    image = (shape.batch, shape.channels, *shape.image)
    outputs = shape.groups * shape.filters
    result = (shape.batch, outputs, *shape.output)
    wide, narrow = TensorInfo("float32", result), TensorInfo(dtype, result, outer)
    reads = (
        TensorInfo(dtype, image, 0 if plain else BLOCKS[dtype]),
        TensorInfo(dtype, (outputs, shape.members, *shape.kernel)),
        TensorInfo("float32", (outputs,)),
        TensorInfo("float32", result),
    )
    values = (*reads, TensorInfo("float32", image), replace(reads[1], dtype="float32"))
    attributes = {
        "group": shape.groups,
        "strides": list(shape.strides),
        "dilations": list(shape.dilations),
        "pads": list(shape.pads),
    }
    operators = residual_convolution(attributes, dtype)
    flags = (False, True, True, False)
    return Group("grouped", (*values, wide, wide, wide, narrow), 4, flags, {}, operators, (9,))


def draw_inputs(group: Group) -> list[numpy.ndarray]:
    """Normal numbers in each read's type."""
    rng = numpy.random.default_rng(3)
    return [rng.standard_normal(t.shape).astype(numpy_dtype(t.dtype)) for t in group.reads]


def reference(shape: Shape, inputs: Sequence[numpy.ndarray]) -> numpy.ndarray:
    """The same in float64, tap by tap."""
    x, w, bias, y = (array.astype("float64") for array in inputs)
    rank = len(shape.image)
    pads = [(0, 0), (0, 0), *zip(shape.pads[:rank], shape.pads[rank:], strict=True)]
    x = numpy.pad(x, pads)
    x = x.reshape(shape.batch, shape.groups, shape.members, *x.shape[2:])
    w = w.reshape(shape.groups, shape.filters, shape.members, *shape.kernel)
    total = y + bias.reshape(-1, *[1] * rank)
    for tap in itertools.product(*map(range, shape.kernel)):
        at = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in
              zip(tap, shape.dilations, shape.output, shape.strides, strict=True)]  # fmt: skip
        sums = numpy.einsum("ngm...,gfm->ngf...", x[(..., *at)], w[(..., *tap)])
        total = total + sums.reshape(total.shape)
    return numpy.maximum(total, 0)


def check(shape: Shape, dtype: str, block: int, work: Work, plain: bool = False) -> None:
    """Run on the emulator and compare."""
    group = convolution(shape, dtype, block, plain)
    inputs = draw_inputs(group)
    kernel = kernel_in("grouped_conv", group, TARGET, work)
    assert kernel is not None
    assert "convolve_groups" in kernel.text
    (result,) = run_twice(kernel, group, inputs)
    tolerance = TOLERANCES[dtype] * max(1, shape.members * numpy.prod(shape.kernel)) ** 0.5
    expected = reference(shape, inputs)
    numpy.testing.assert_allclose(result.astype("float64"), expected, tolerance, tolerance)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[Shape, str]:
    """Small convolutions whose windows fit at least once."""
    rank = draw(st.sampled_from([2, 2, 2, 1, 3]))
    dtype = draw(st.sampled_from(sorted(BLOCKS)))

    def axes(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(rank))

    pads = axes(0, 3) + axes(0, 3)
    block = BLOCKS[dtype]
    members = draw(st.sampled_from([1, 2, block, 2 * block]))
    filters = members if members < block else block * draw(st.integers(1, 2))
    channels = max(block, members) * draw(st.integers(1, 3))
    shape = Shape(channels, axes(1, 7), axes(1, 4), axes(1, 3), axes(1, 2), pads,
                  draw(st.integers(1, 2)), members, filters)  # fmt: skip
    if shape.groups == 1:
        shape = replace(shape, channels=2 * channels)
    if min(shape.output) < 1:
        shape = replace(shape, pads=(6,) * (2 * rank))
    return shape, dtype


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@settings(max_examples=6, deadline=None)
@given(shapes(), st.booleans(), st.booleans(), st.sampled_from([1, 2, 4]), st.sampled_from([1, 3]))
def test_any_convolution_is_right(
    case: tuple[Shape, str], plain: bool, blocked: bool, pixels: int, slices: int
):
    shape, dtype = case
    check(shape, dtype, BLOCKS[dtype] if blocked else 0, Work(pixels, 32, slices), plain)


NASNET = Shape(44, (28, 28), (5, 5), (2, 2), (1, 1), (2, 2, 2, 2))


@pytest.mark.parametrize("dtype", sorted(BLOCKS))
@pytest.mark.parametrize("size", [3, 7])
def test_kernels_keep_everything_in_registers(dtype: str, size: int):
    shape = replace(NASNET, channels=48, image=(224, 224), kernel=(size, size), strides=(1, 1))
    kernel = kernel_in("grouped_conv", convolution(shape, dtype), TARGET)
    assert kernel is not None
    for target in (TARGET, parse_gpu("cuda:sm_80:tf32")):
        (found,) = read_resources(compile_cubin(complete_text(kernel.text), target)).values()
        assert found.stack_bytes == 0
        assert found.registers <= 128


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (Shape(8, (9, 13), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)), "float32"),
        (Shape(8, (5, 6), (5, 5), (2, 2), (1, 1), (2, 1, 2, 3), 2), "float32"),
        (Shape(16, (7, 9), (3, 2), (1, 2), (2, 3), (4, 4, 4, 4)), "float16"),
        (Shape(4, (1, 1), (3, 3), (1, 1), (1, 1), (3, 3, 3, 3)), "float32"),
    ],
)
def test_a_thread_computes_several_pixels(shape: Shape, dtype: str):
    check(shape, dtype, BLOCKS[dtype], Work(4, 32, 1))


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize(
    ("dtype", "members", "plain"),
    [("float32", 8, False), ("float16", 4, False), ("float32", 2, True)],
)
def test_threads_share_sums(dtype: str, members: int, plain: bool):
    shape = Shape(16, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1, members, members)
    check(shape, dtype, BLOCKS[dtype], Work(4, 32, 3), plain)


def test_groups_that_do_not_match():
    group = convolution(NASNET)
    one = replace(NASNET, channels=4, members=4, filters=4)
    assert kernel_in("grouped_conv", convolution(one), TARGET) is None
    multiplied = replace(NASNET, filters=2)
    assert kernel_in("grouped_conv", convolution(multiplied), TARGET) is None
    assert kernel_in("grouped_conv", replace(group, weights=(False,) * 4), TARGET) is None
    computed = replace(group.operators[0], type="Relu")
    other = replace(group, operators=(computed, *group.operators[1:]))
    assert kernel_in("grouped_conv", other, TARGET) is None


def by_estimate(shape: Shape) -> Work:
    """The config of the least estimate."""
    group = convolution(shape)
    problem = read_grouped(group, group.operators[2])
    assert problem is not None
    return estimated("grouped_conv", problem, TARGET)


def test_large_images_get_several_pixels_a_thread():
    few, many = (by_estimate(replace(NASNET, image=(n, n), strides=(1, 1))) for n in (14, 224))
    assert few.pixels <= many.pixels
    assert many.pixels > 1


def test_deep_groups_share_their_sums():
    deep = replace(NASNET, channels=1024, members=32, filters=32, image=(7, 7), strides=(1, 1))
    assert by_estimate(replace(deep, kernel=(3, 3), pads=(1, 1, 1, 1))).split_k > 1


def test_large_groups_are_left_to_tensor_cores():
    wide = replace(NASNET, channels=512, members=256, filters=256, image=(56, 56))
    assert kernel_in("grouped_conv", convolution(wide), TARGET) is None
    assert (
        kernel_in("grouped_conv", convolution(replace(NASNET, members=4, filters=4)), TARGET)
        is not None
    )
