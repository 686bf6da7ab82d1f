"""The schedules that fit every group, on the emulator."""

import dataclasses

import ml_dtypes
import numpy
import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, emulate_all, run, run_twice
from tests.kernels.harness import single
from tests.kernels.node_cases import node_case, usable_names

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp32")
OPAQUE = ("test_cumsum_2d_axis_0", "test_scatternd_add", "test_top_k_smallest")
CHOSEN = sorted({*OPAQUE, *sorted(usable_names())[::9]})


def draw(*shape: int) -> numpy.ndarray:
    """Normal numbers."""
    return numpy.random.default_rng(shape).standard_normal(shape).astype("float32")


def softmax(x: numpy.ndarray, axis: int) -> numpy.ndarray:
    """Softmax in float64."""
    powers = numpy.exp(x.astype("float64") - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize(("shape", "axis"), [
    ((3, 5), -1), ((2, 3, 33), -1), ((2, 3, 200), 1), ((2, 1500), -1), ((1, 7, 3, 3), 1),
])  # fmt: skip
def test_softmax_is_one_launch(shape: tuple[int, ...], axis: int):
    x = draw(*shape)
    group, inputs = single("Softmax", [x], [TensorInfo("float32", shape)], {"axis": axis})
    kernel = generate(group, TARGET)
    assert len(kernel.launches) == 1
    assert not kernel.workspaces
    (result,) = run(kernel, group, inputs)
    numpy.testing.assert_allclose(result, softmax(x, axis), atol=1e-6)


@pytest.mark.parametrize(("shape", "blocks"), [
    ((9, 60, 3, 10), 270), ((2, 1, 550, 33), 275), ((3, 11, 65, 4), 429), ((5, 440, 150), 275),
])  # fmt: skip
def test_small_rows_share_a_block(shape: tuple[int, ...], blocks: int):
    """A transposed tensor of small rows is divided by their norms: a launch of equal blocks."""
    order = [1, 0, *range(2, len(shape))]
    stored = TensorInfo("float32", tuple(shape[i] for i in order))
    x, norms = TensorInfo("float32", shape), TensorInfo("float32", (*shape[:-1], 1))
    operators = (
        Node("Transpose", {"perm": order}, (0,), (1,)),
        Node("ReduceL2", {"axes": [len(shape) - 1], "keepdims": 1}, (1,), (2,)),
        Node("Div", {}, (1, 2), (3,)),
    )
    group = Group("rows", (stored, x, norms, x), 1, (False,), {}, operators, (3,))
    data, kernel = draw(*stored.shape), generate(group, TARGET)
    assert [launch.grid[0] for launch in kernel.launches] == [blocks]
    (result,) = run_twice(kernel, group, [data])
    rows = data.transpose(order).astype("float64")
    expected = rows / numpy.sqrt((rows**2).sum(-1, keepdims=True))
    numpy.testing.assert_allclose(result, expected, atol=1e-6)


@pytest.mark.parametrize(("shape", "axes", "grid", "block"), [
    ((64, 1000), (0,), 125, (8, 16)), ((300, 2), (0,), 1, (2, 64)),
    ((2, 256, 8192), (1,), 512, (32, 16)), ((2, 50, 9001), (1,), 141, (128, 1)),
    ((37, 257), (0,), 257, (32, 1)), ((1, 64, 32768), (1,), 1024, (32, 8)),
])  # fmt: skip
def test_threads_share_adjacent_reductions(
    shape: tuple[int, ...], axes: tuple[int, ...], grid: int, block: tuple[int, int]
):
    """Neighbouring threads read neighbouring elements, and no more share one than fill a GPU."""
    check_sums(shape, axes, grid, block)


@pytest.mark.parametrize(("shape", "grid", "block"), [
    ((3000, 20), 300, (4, 10)), ((70000, 20), 1250, (4, 56)), ((9000, 64), 600, (16, 15)),
    ((5000, 8), 40, (128, 1)), ((20, 700), 20, (128, 1)),
])  # fmt: skip
def test_threads_share_reductions_of_consecutive_elements(
    shape: tuple[int, int], grid: int, block: tuple[int, int]
):
    check_sums(shape, (1,), grid, block)


def check_sums(shape: tuple[int, ...], axes: tuple[int, ...], grid: int, block: tuple[int, int]):
    """Sums over some axes against float64, with the blocks and their threads."""
    x = draw(*shape)
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    attributes = {"axes": list(axes), "keepdims": 0}
    group, inputs = single("ReduceSum", [x], [TensorInfo("float32", kept)], attributes)
    kernel = generate(group, TARGET)
    (launch,) = kernel.launches
    assert (launch.grid[0], launch.block[:2]) == (grid, block)
    (result,) = run_twice(kernel, group, inputs)
    numpy.testing.assert_allclose(result, x.astype("float64").sum(axes), atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 32, 16, 24), (2, 3, 7, 8), (3, 130, 40)])
def test_channels_are_normalised_next_to_each_other(shape: tuple[int, ...]):
    """Threads of a block have adjacent pixels, and some share the channels of each."""
    group, inputs = single("Softmax", [draw(*shape)], [TensorInfo("float32", shape)], {"axis": 1})
    kernel = generate(group, TARGET)
    (launch,) = kernel.launches
    assert launch.block[0] == 8
    (result,) = run_twice(kernel, group, inputs)
    numpy.testing.assert_allclose(result, softmax(inputs[0], 1), atol=1e-6)


@pytest.mark.parametrize("axis", [1, 2])
def test_a_mean_and_a_variance_of_the_same_rows_are_one_launch(axis: int):
    shape = (3, 40, 56)
    x = TensorInfo("float32", shape)
    rows = TensorInfo("float32", tuple(1 if i == axis else n for i, n in enumerate(shape)))
    mean = {"axes": [axis], "keepdims": 1}
    operators = (
        Node("ReduceMean", mean, (0,), (1,)), Node("Sub", {}, (0, 1), (2,)),
        Node("Mul", {}, (2, 2), (3,)), Node("ReduceMean", mean, (3,), (4,)),
        Node("Sqrt", {}, (4,), (5,)), Node("Div", {}, (2, 5), (6,)),
    )  # fmt: skip
    group = Group("norm", (x, rows, x, x, rows, rows, x), 1, (False,), {}, operators, (6,))
    data, kernel = draw(*shape) + 5, generate(group, TARGET)
    assert len(kernel.launches) == 1
    (result,) = run_twice(kernel, group, [data])
    wide = data.astype("float64")
    expected = (wide - wide.mean(axis, keepdims=True)) / wide.std(axis, keepdims=True)
    numpy.testing.assert_allclose(result, expected, atol=1e-5)


def test_layer_normalization_with_a_prologue_is_one_launch():
    row, vector = TensorInfo("float32", (4, 100)), TensorInfo("float32", (100,))
    operators = (
        Node("Add", {}, (0, 1), (4,)),
        Node("LayerNormalization", {"epsilon": 1e-5}, (4, 2, 3), (5,)),
    )
    values = (row, row, vector, vector, row, row)
    group = Group("normalise", values, 4, (False, False, True, True), {}, operators, (5,))
    inputs = [draw(*v.shape) + i for i, v in enumerate(values[:4])]
    kernel = generate(group, TARGET)
    assert len(kernel.launches) == 1
    (result,) = run(kernel, group, inputs)
    x = (inputs[0] + inputs[1]).astype("float64")
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    numpy.testing.assert_allclose(result, expected * inputs[2] + inputs[3], atol=1e-4)


def test_pooling_with_an_epilogue_is_one_launch():
    image, pooled = TensorInfo("float32", (1, 3, 9, 9)), TensorInfo("float32", (1, 3, 5, 5))
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    operators = (
        Node("MaxPool", attributes, (0,), (2,)),
        Node("Add", {}, (2, 1), (3,)),
    )
    group = Group("pool", (image, pooled, pooled, pooled), 2, (False,) * 2, {}, operators, (3,))
    x, y = draw(1, 3, 9, 9), draw(1, 3, 5, 5)
    kernel = generate(group, TARGET)
    assert len(kernel.launches) == 1
    (result,) = run(kernel, group, [x, y])
    padded = numpy.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-numpy.inf)
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    numpy.testing.assert_array_equal(result, windows.max((-2, -1)) + y)


def test_a_reduction_and_its_epilogue_can_both_be_results():
    x, total = TensorInfo("float32", (4, 50)), TensorInfo("float32", (4, 1))
    operators = (
        Node("ReduceSum", {"axes": [1], "keepdims": 1}, (0,), (1,)),
        Node("Neg", {}, (1,), (2,)),
    )
    group = Group("both", (x, total, total), 1, (False,), {}, operators, (1, 2))
    data = draw(4, 50)
    summed, negated = run(generate(group, TARGET), group, [data])
    numpy.testing.assert_allclose(summed, data.sum(1, keepdims=True), rtol=1e-5)
    numpy.testing.assert_array_equal(negated, -summed)


@pytest.mark.parametrize("width", [1, 40])
def test_threads_of_a_warp_copy_from_one_part(width: int):
    """Threads of a stack walk along the parts, those of wide parts along the result."""
    parts = [draw(60, width) + i for i in range(9)]
    info = TensorInfo("float32", (60, 9 * width))
    group, inputs = single("Concat", parts, [info], {"axis": 1})
    kernel = generate(group, TARGET)
    (result,) = run_twice(kernel, group, inputs)
    numpy.testing.assert_array_equal(result, numpy.concatenate(parts, 1))
    stored = next(x for x in kernel.text.splitlines() if "Concat_ptr[" in x).split("]")[0]
    strided = "(int)threadIdx.x) *" in stored or "% 60) *" in stored
    assert strided is (width == 1), stored


def test_threads_of_many_elements_have_several():
    x = draw(601, 700)
    group, inputs = single("Abs", [x], [TensorInfo("float32", x.shape)])
    kernel = generate(group, TARGET)
    assert kernel.launches[0].grid[0] == 822
    (result,) = run_twice(kernel, group, inputs)
    numpy.testing.assert_array_equal(result, abs(x))


@pytest.mark.parametrize(("shape", "axis", "launches"), [
    ((6, 40), 1, 1), ((40, 6), 0, 1), ((1 << 17,), 0, 3), ((700, 5), 1, 1),
])  # fmt: skip
def test_results_of_one_shape_share_a_loop(shape: tuple[int, ...], axis: int, launches: int):
    """A sum of rows, and the rows and their negatives divided by it."""
    x = TensorInfo("float32", shape)
    total = TensorInfo("float32", tuple(1 if i == axis else n for i, n in enumerate(shape)))
    operators = (
        Node("Abs", {}, (0,), (1,)),
        Node("ReduceSum", {"axes": [axis], "keepdims": 1}, (1,), (2,)),
        Node("Div", {}, (0, 2), (3,)),
        Node("Neg", {}, (3,), (4,)),
    )
    group = Group("merged", (x, x, total, x, x), 1, (False,), {}, operators, (1, 4))
    data, kernel = draw(*shape), generate(group, TARGET)
    assert len(kernel.launches) == launches
    size, negative = run_twice(kernel, group, [data])
    numpy.testing.assert_array_equal(size, abs(data))
    rows = abs(data.astype("float64"))
    numpy.testing.assert_allclose(negative, -data / rows.sum(axis, keepdims=True), atol=1e-6)


def test_nothing_is_launched_for_results_without_elements():
    group, _ = single("Relu", [draw(0, 3)], [TensorInfo("float32", (0, 3))])
    assert generate(group, TARGET).launches == ()


def test_onnx_node_cases():
    cases = [node_case(name) for name in CHOSEN]
    groups = [dataclasses.replace(c.group, name=f"case{i}") for i, c in enumerate(cases)]
    built = [(generate(g, TARGET), g, c.inputs) for g, c in zip(groups, cases, strict=True)]
    kept = [i for i, (kernel, _, _) in enumerate(built) if "struct Problem" not in kernel.text]
    assert len(kept) > 60
    for i, results in zip(kept, emulate_all([built[i] for i in kept]), strict=True):
        for result, expected in zip(results, cases[i].expected, strict=True):
            rtol, atol = max(cases[i].rtol, 1e-4), max(cases[i].atol, 1e-5)
            wide = result.astype("float64") if result.dtype.kind in "fV" else result
            numpy.testing.assert_allclose(
                wide, expected.astype(wide.dtype), rtol=rtol, atol=atol, err_msg=cases[i].name
            )


def test_infinite_bfloat16_constants_are_written():
    x = draw(2, 3).astype(ml_dtypes.bfloat16)
    operands = [x, numpy.array([0, 0, 0, 2]), numpy.array(-numpy.inf, ml_dtypes.bfloat16)]
    group, inputs = single("Pad", operands, [TensorInfo("bfloat16", (2, 5))], constants=(1, 2))
    (result,) = run(generate(group, TARGET), group, inputs)
    numpy.testing.assert_array_equal(result[:, :3].astype("float32"), x.astype("float32"))
    assert numpy.isneginf(result[:, 3:].astype("float32")).all()
