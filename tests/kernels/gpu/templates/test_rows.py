"""Normalisations of rows on the emulator against float64."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.building import kernel as _lowerings
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu.templates.row_norm.template import Config as Work
from compiler.kernels.gpu.templates.row_norm.template import likeliest
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run, run_twice
from tests.kernels.gpu.of_template import kernel_in, problem_in
from tests.kernels.gpu.templates.test_contraction import draw

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
assert _lowerings
TARGET = parse_gpu("cuda")


def standard(x: numpy.ndarray, axes: tuple[int, ...], centred: bool, epsilon: float):
    """The rows in float64, with variance (or square) 1."""
    x = x.astype("float64")
    x = x - x.mean(axes, keepdims=True) if centred else x
    return x / numpy.sqrt((x * x).mean(axes, keepdims=True) + epsilon)


def residual_group(shape: tuple[int, ...], axis: int) -> Group:
    """Add, LayerNormalization of the sum, Relu of that; the sum is a result as well."""
    info, scale = TensorInfo("float32", shape), TensorInfo("float32", shape[axis:])
    attributes = {"axis": axis, "epsilon": 1e-3}
    operators = (
        Node("Add", {}, (0, 1), (4,)),
        Node("LayerNormalization", attributes, (4, 2, 3), (5,)),
        Node("Relu", {}, (5,), (6,)),
    )
    values = (info, info, scale, scale, info, info, info)
    return Group("residual", values, 4, (False,) * 4, {}, operators, (4, 6))


@settings(max_examples=4, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 300)),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([None, Work(32, 2), Work(32, 4), Work(64)]),
)
def test_residual(shape: tuple[int, ...], axis: int, odd: bool, work: Work | None):
    group = residual_group(shape, axis)
    kernel = kernel_in("row_norm", group, TARGET, work)
    assert kernel is not None
    a, b, scale, bias = (
        draw(*s, seed=i) for i, s in enumerate((shape, shape, shape[axis:], shape[axis:]))
    )
    total, found = run_twice(kernel, group, [a, b, scale, bias], 4 * odd)
    numpy.testing.assert_array_equal(total, a + b)
    axes = tuple(range(axis, 3))
    expected = numpy.maximum(standard(a + b, axes, True, 1e-3) * scale + bias, 0)
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("type", "columns"), [("LayerNormalization", 5000), ("RMSNormalization", 70)]
)
def test_far_from_zero(type: str, columns: int):
    """Rows whose mean is a thousand times their deviation, without a bias."""
    x, scale = draw(3, columns) + 1000 * (type == "LayerNormalization"), draw(1)
    infos = (
        TensorInfo("float32", x.shape),
        TensorInfo("float32", (1,)),
        TensorInfo("float32", x.shape),
    )
    group = Group(
        "one", infos, 2, (False, True), {}, (Node(type, {"axis": -1}, (0, 1), (2,)),), (2,)
    )
    kernel = generate(group, TARGET)
    assert "normalize" in kernel.text, "the generic schedule took it"
    (found,) = run(kernel, group, [x, scale])
    expected = standard(x, (1,), type == "LayerNormalization", 1e-5) * scale
    numpy.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
    assert numpy.linalg.norm(found - expected) < 3e-4 * numpy.linalg.norm(expected)


def test_rows_too_long_for_registers():
    infos = (TensorInfo("float32", (1, 20000)), TensorInfo("float32", (1,)))
    operator = Node("RMSNormalization", {"axis": -1}, (0, 1), (2,))
    group = Group("long", (*infos, infos[0]), 2, (False,) * 2, {}, (operator,), (2,))
    assert kernel_in("row_norm", group, TARGET) is None


@pytest.mark.parametrize(
    ("rows", "columns", "work"),
    [
        (128, 768, Work(192)),
        (2048, 768, Work(32, 8)),
        (300, 768, Work(32, 2)),
        (4096, 2048, Work(512)),
    ],
)
def test_many_short_rows_have_a_warp_each(rows: int, columns: int, work: Work):
    problem = problem_in("row_norm", residual_group((1, rows, columns), 2), TARGET)
    assert problem is not None
    assert likeliest(problem) == work
