"""Elementwise webs with several results on the emulator against numpy."""

from collections.abc import Callable

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.building import kernel as _lowerings
from compiler.kernels.group import Group, Node, TensorInfo
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
    operators: list[Node[int]] = []
    for type, left, right in steps:
        full = [i % len(values) for i in (left, right)]
        if values[full[0]].shape != shape:
            full[0] = len(values) - 1
        inputs = tuple(full[:1] if type in ("Sigmoid", "Tanh") else full)
        operators.append(Node(type, {}, inputs, (len(values),)))
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


def test_elements_from_elsewhere():
    """Steps of a recurrence, each of which reads a slice; a transposition keeps the last axis."""
    state, stored = TensorInfo("float32", (3, 7)), TensorInfo("float16", (3, 5, 7))
    steps = TensorInfo("float32", (5, 3, 7))
    operators: list[Node[int]] = [
        Node("Cast", {"to": 1}, (1,), (2,)),
        Node("Transpose", {"perm": [1, 0, 2]}, (2,), (3,)),
    ]
    values = [state, stored, TensorInfo("float32", (3, 5, 7)), steps]
    constants: dict[int, numpy.ndarray] = {}
    last, results = 0, list[int]()
    for i in range(5):
        index, slice, added = len(values), len(values) + 1, len(values) + 2
        values += [TensorInfo("int64", ()), state, state]
        constants[index] = numpy.array(i)
        operators.append(Node("Gather", {"axis": 0}, (3, index), (slice,)))
        operators.append(Node("Add", {}, (last, slice), (added,)))
        last = added
        results.append(added)
    group = Group(
        "steps", tuple(values), 2, (False,) * 2, constants, tuple(operators), tuple(results)
    )
    x, y = draw(3, 7, seed=1), draw(3, 5, 7, seed=2).astype("float16")
    kernel = kernel_in("pointwise", group, TARGET)
    assert kernel is not None
    found = run_twice(kernel, group, [x, y])
    sums = x[:, None] + y.astype("float64").cumsum(1)
    numpy.testing.assert_allclose(found, sums.transpose(1, 0, 2), atol=1e-5)


def test_threads_of_many_elements_have_several():
    group = web([("Add", 0, 3), ("Sub", 0, 3)], [0, 1], (700, 1009))
    kernel = kernel_in("pointwise", group, TARGET)
    assert kernel is not None
    assert kernel.launches[0].grid[0] == 690
    check(group)


@pytest.mark.parametrize("sizes", [(5, 11, 1), (8, 8)])
def test_parts_of_any_size_are_one_launch(sizes: tuple[int, ...]):
    """The parts of a Split, one of them changed."""
    rows, width = 37, sum(sizes)
    parts = [TensorInfo("float32", (rows, size)) for size in sizes]
    values = (TensorInfo("float32", (rows, width)), *parts, parts[0])
    numbers = tuple(range(1, len(sizes) + 1))
    split = Node("Split", {"axis": 1, "sizes": list(sizes)}, (0,), numbers)
    operators = (split, Node("Tanh", {}, (1,), (len(sizes) + 1,)))
    group = Group("parts", values, 1, (False,), {}, operators, (*numbers[1:], len(sizes) + 1))
    kernel = kernel_in("pointwise", group, TARGET)
    assert kernel is not None
    assert len(kernel.launches) == 1
    x = draw(rows, width, seed=3)
    first, *others = numpy.split(x, numpy.cumsum(sizes)[:-1], axis=1)
    results = run_twice(kernel, group, [x])
    for result, expected in zip(results, [*others, numpy.tanh(first)], strict=True):
        numpy.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
