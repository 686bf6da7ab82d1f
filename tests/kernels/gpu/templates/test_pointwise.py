"""Elementwise webs with several results on the emulator against numpy."""

from collections.abc import Callable

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels import kernel as _lowerings
from compiler.kernels.group import Group, Operator, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import kernel_in
from tests.kernels.gpu.templates.test_contraction import draw

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
assert _lowerings
TARGET = parse_gpu("cuda")
SHAPE = (3, 50)


def sigmoid(x: numpy.ndarray) -> numpy.ndarray:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + numpy.exp(-x))


KINDS: dict[str, Callable[..., numpy.ndarray]] = {
    "Add": numpy.add,
    "Sub": numpy.subtract,
    "Max": numpy.maximum,
    "Sigmoid": sigmoid,
    "Tanh": numpy.tanh,
}


def web(
    steps: list[tuple[str, int, int]], outputs: list[int], shape: tuple[int, int] = SHAPE
) -> Group:
    """Operators on a matrix, a row, a column and earlier results."""
    values = [TensorInfo("float32", s) for s in (shape, shape[1:], (shape[0], 1), shape)]
    operators: list[Operator] = []
    for type, left, right in steps:
        full = [i % len(values) for i in (left, right)]
        if values[full[0]].shape != shape:
            full[0] = len(values) - 1
        inputs = tuple(full[:1] if type in ("Sigmoid", "Tanh") else full)
        operators.append(Operator(type, {}, inputs, (len(values),)))
        values.append(TensorInfo("float32", shape))
    results = tuple(dict.fromkeys(4 + i % len(operators) for i in outputs))
    return Group("web", tuple(values), 4, (False,) * 4, {}, tuple(operators), results)


def check(group: Group, offset: int = 0) -> None:
    """Compare every result with numpy's."""
    values = [draw(*info.shape, seed=i) for i, info in enumerate(group.reads)]
    kernel = kernel_in("pointwise", group, TARGET)
    assert kernel is not None
    assert len(kernel.launches) == 1
    results = run_twice(kernel, group, values, offset)
    for op in group.operators:
        values.append(KINDS[op.type](*[values[i] for i in op.inputs if i is not None]))
    for found, number in zip(results, group.outputs, strict=True):
        numpy.testing.assert_allclose(found, values[number], rtol=1e-4, atol=1e-4)


numbers = st.integers(0, 60)
steps = st.lists(st.tuples(st.sampled_from(list(KINDS)), numbers, numbers), min_size=2, max_size=20)


@settings(max_examples=5, deadline=None)
@given(
    steps, st.lists(numbers, min_size=2, max_size=4), st.booleans(),
    st.tuples(st.integers(1, 9), st.integers(1, 150)),
)  # fmt: skip
def test_any_web(
    steps: list[tuple[str, int, int]], outputs: list[int], odd: bool, shape: tuple[int, int]
):
    group = web(steps, outputs, shape)
    if len(group.outputs) > 1:
        check(group, 4 * odd)


def test_shared_values_are_computed_once():
    """Forty doublings would be an expression of a million million terms."""
    group = web([("Max", 3, 3), *[("Max", 4 + i, 4 + i) for i in range(39)]], [39])
    kernel = kernel_in("pointwise", group, TARGET)
    assert kernel is not None
    assert len(kernel.text) < 20_000
    check(group)


def test_few_operators_with_one_result_are_left():
    assert kernel_in("pointwise", web([("Add", 0, 1), ("Tanh", 4, 0)], [1]), TARGET) is None
