"""Random shapes and orders: results against numpy, blocks independent of how they are split."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_target
from tests.kernels.harness import evaluate_once, run_kernel, single

Array = numpy.ndarray
few = settings(max_examples=12, deadline=None)
shapes = st.lists(st.integers(1, 19), min_size=1, max_size=4)


def draw(shape: Sequence[int], seed: int = 0) -> Array:
    """Random normal floats."""
    return numpy.random.default_rng(seed).standard_normal(shape, dtype="float32")


def run(type: str, inputs: list[Array], shape: Sequence[int], **attributes: object) -> Array:
    """The result of one operator."""
    group, arrays = single(type, inputs, [TensorInfo("float32", tuple(shape))], attributes)
    return evaluate_once(group, arrays)[0]


@few
@given(shapes, st.data())
def test_broadcasting(shape: list[int], data: st.DataObject):
    kept = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    other = [n if keep else 1 for n, keep in zip(shape, kept, strict=True)]
    other = other[data.draw(st.integers(0, len(shape) - 1)) :]
    a, b = draw(shape), draw(other, 1)
    numpy.testing.assert_array_equal(run("Add", [a, b], shape), a + b)


@few
@given(shapes, st.data())
def test_transpose(shape: list[int], data: st.DataObject):
    order = data.draw(st.permutations(range(len(shape))))
    x = draw(shape)
    expected = x.transpose(order)
    numpy.testing.assert_array_equal(run("Transpose", [x], expected.shape, perm=order), expected)


@few
@given(shapes, st.data())
def test_softmax(shape: list[int], data: st.DataObject):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = draw(shape) * 20
    power = numpy.exp(x.astype("float64") - x.max(axis=axis, keepdims=True))
    expected = power / power.sum(axis=axis, keepdims=True)
    numpy.testing.assert_allclose(run("Softmax", [x], shape, axis=axis), expected, 1e-5, 1e-7)


@few
@given(shapes, st.data())
def test_layer_normalization(shape: list[int], data: st.DataObject):
    first = data.draw(st.integers(0, len(shape) - 1))
    x, scale = draw(shape), draw(shape[first:], 1)
    axes = tuple(range(first, len(shape)))
    wide = x.astype("float64")
    deviation = numpy.sqrt(wide.var(axis=axes, keepdims=True) + 1e-5)
    expected = (wide - wide.mean(axis=axes, keepdims=True)) / deviation * scale
    result = run("LayerNormalization", [x, scale], shape, axis=first)
    numpy.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@few
@given(st.integers(1, 5), st.integers(1, 3), st.integers(5, 40), st.integers(1, 4), st.data())
def test_max_pool(channels: int, stride: int, width: int, kernel: int, data: st.DataObject):
    pad = data.draw(st.integers(0, kernel - 1))
    x = draw((1, channels, 9, width))
    wide = numpy.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=-numpy.inf)
    windows = numpy.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), (2, 3))
    expected = windows[:, :, ::stride, ::stride].max(axis=(4, 5))
    settings = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    numpy.testing.assert_array_equal(run("MaxPool", [x], expected.shape, **settings), expected)


def softmax_case() -> tuple[Group, list[Array]]:
    return single("Softmax", [draw((50, 70))], [TensorInfo("float32", (50, 70))])


def pool_case() -> tuple[Group, list[Array]]:
    settings = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    x = draw((2, 16, 40, 41))
    return single("AveragePool", [x], [TensorInfo("float32", x.shape)], settings)


def reduction_case() -> tuple[Group, list[Array]]:
    inputs = [draw((64, 9, 300)), numpy.array([2])]
    return single("ReduceSum", inputs, [TensorInfo("float32", (64, 9, 1))], {}, [1])


def exponential_case() -> tuple[Group, list[Array]]:
    x = draw((130, 1031))
    return single("Exp", [x], [TensorInfo("float32", x.shape)])


CASES = [softmax_case, pool_case, reduction_case, exponential_case]


@pytest.mark.parametrize("case", CASES)
def test_blocks_in_any_order_and_split_give_the_same_bits(
    case: Callable[[], tuple[Group, list[Array]]],
):
    group, arrays = case()
    spec = build_kernel(group, parse_target("cpu"))
    assert any(launch.grid[0] > 1 for launch in spec.launches)
    generator = numpy.random.default_rng(7)

    def singly(blocks: int) -> list[tuple[int, int]]:
        return [(int(b), int(b) + 1) for b in generator.permutation(blocks)]

    def thirds(blocks: int) -> list[tuple[int, int]]:
        bounds = [0, blocks // 3, blocks // 2, blocks]
        return list(pairwise(bounds))[::-1]

    whole = run_kernel(spec, group, arrays)[0]
    for order in (singly, thirds):
        numpy.testing.assert_array_equal(run_kernel(spec, group, arrays, order)[0], whole)


def test_a_chain_of_operators_is_one_launch_without_workspaces():
    info = TensorInfo("float32", (3, 5, 8))
    chain = [Node(t, {}, (i,), (i + 1,)) for i, t in enumerate(("Relu", "Exp", "Tanh"))]
    group = Group("chain", (info,) * 4, 1, (False,), {}, tuple(chain), (3,))
    spec = build_kernel(group, parse_target("cpu"))
    x = draw(info.shape)
    assert (len(spec.launches), spec.workspaces) == (1, ())
    expected = numpy.tanh(numpy.exp(numpy.maximum(x, 0)))
    numpy.testing.assert_allclose(run_kernel(spec, group, [x])[0], expected, rtol=1e-6)


def test_a_result_that_is_an_input_is_copied():
    info = TensorInfo("float32", (4, 7))
    group = Group("copy", (info,), 1, (False,), {}, (), (0,))
    x = draw(info.shape)
    numpy.testing.assert_array_equal(evaluate_once(group, [x])[0], x)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_integer_division_never_traps(dtype: str):
    limits = numpy.iinfo(dtype)
    a = numpy.array([limits.min, limits.max, -7 % limits.max, 7, 5], dtype)
    b = numpy.array([limits.max if limits.min == 0 else -1, 2, 2, 0, 1], dtype)
    group, arrays = single("Div", [a, b], [TensorInfo(dtype, a.shape)])
    result = evaluate_once(group, arrays)[0]
    assert result[1] == limits.max // 2
    assert result[3] == 0
    assert result[4] == 5


def test_an_index_outside_stays_inside():
    x, indices = draw((5, 4)), numpy.array([-1, 99, -99, 2])
    group, arrays = single("Gather", [x, indices], [TensorInfo("float32", (4, 4))])
    numpy.testing.assert_array_equal(evaluate_once(group, arrays)[0], x[[4, 4, 0, 2]])


def test_an_index_remainder_by_a_power_of_two_is_not_miscompiled():
    """LLVM 22's vectoriser ignores the remainder when it interleaves accesses."""
    x = draw((2, 3, 4, 5))
    repeats = numpy.array([7, 6, 4, 2])
    expected = numpy.tile(x, repeats)
    infos = [TensorInfo("float32", expected.shape)]
    group, arrays = single("Tile", [x, repeats], infos, {}, [1])
    numpy.testing.assert_array_equal(evaluate_once(group, arrays)[0], expected)


def test_a_long_chain_that_uses_values_twice_does_not_explode():
    info = TensorInfo("float32", (4, 100))
    chain: list[Node[int]] = []
    for i in range(0, 40, 2):
        chain += [
            Node("Sigmoid", {}, (i,), (i + 1,)),
            Node("Mul", {}, (i, i + 1), (i + 2,)),
        ]
    group = Group("swishes", (info,) * 41, 1, (False,), {}, tuple(chain), (40,))
    x = draw(info.shape)
    expected = x.astype("float64")
    for _ in range(20):
        expected = expected / (1 + numpy.exp(-expected))
    numpy.testing.assert_allclose(evaluate_once(group, [x])[0], expected, rtol=1e-4, atol=1e-6)
