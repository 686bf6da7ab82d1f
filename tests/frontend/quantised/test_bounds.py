"""Bounds hold every element, and are those of the operators."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend.builder import Builder
from compiler.frontend.evaluate import evaluate
from compiler.net.building.expansion import Expansion
from compiler.net.graph import Graph, Value
from compiler.rewrite.quantised.bounds import MOST_FOLLOWED, number_bounds

SHAPE = (3, 4)
UNARY = ("Relu", "Softmax", "Sigmoid", "Tanh", "Erf", "Transpose", "Clip")
BINARY = ("Add", "Mul", "Sub")


def builder() -> Builder:
    """A builder of an empty graph."""
    return Builder(Graph([]), Expansion())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_element_is_within_the_bounds(data: st.DataObject):
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    writing, arrays = builder(), dict[Value, np.ndarray]()
    start = Value("x", "float32", SHAPE)
    arrays[start] = (random.standard_normal(SHAPE) * 5).astype("f4")
    values = [start]
    for op_type in data.draw(st.lists(st.sampled_from((*UNARY, *BINARY)), min_size=1, max_size=7)):
        value = data.draw(st.sampled_from(values))
        attributes = {"perm": [1, 0]} if op_type == "Transpose" else {}
        others = list[Value]()
        if op_type in BINARY:
            constant = writing.constant(random.standard_normal(()) * 3, "float32")
            same = [v for v in values if v.shape == value.shape]
            others = [data.draw(st.sampled_from([constant, *same]))]
        elif op_type == "Clip":
            others = [writing.constant(x, "float32") for x in sorted(random.standard_normal(2))]
        inputs = [value, *others]
        (found,) = writing.emit(op_type, [*inputs], attributes)
        known = [v if v.array is not None else Value("", array=arrays[v]) for v in inputs]
        (array,) = evaluate(op_type, [*known], attributes, [True])
        assert array is not None
        arrays[found] = array
        values.append(found)
    makers = {v: op for op in writing.graph.operators for v in op.outputs}
    for value in values:
        low, high = number_bounds(value, makers)
        assert low - 1e-5 <= arrays[value].min()
        assert arrays[value].max() <= high + 1e-5


@pytest.mark.parametrize(
    ("op_type", "constants", "expected"),
    [
        ("Clip", [-1.0, 2.0], (-1, 2)),
        ("Relu", [], (0, inf)),
        ("Tanh", [], (-1, 1)),
        ("Mul", [3.0], (-inf, inf)),
        ("Neg", [], (-inf, inf)),
    ],
)
def test_bounds_of_one_operator(
    op_type: str, constants: list[float], expected: tuple[float, float]
):
    writing = builder()
    inputs = [Value("x", "float32", SHAPE), *(writing.constant(c, "float32") for c in constants)]
    (found,) = writing.emit(op_type, [*inputs])
    assert number_bounds(found, {found: writing.graph.operators[0]}) == expected


def test_bounds_pass_through_arithmetic_and_end_in_the_depth():
    writing = builder()
    value = writing.one("Tanh", Value("x", "float32", SHAPE))
    value = writing.one("Mul", value, writing.constant(-4.0, "float32"))
    value = writing.one("Add", value, writing.constant([0.0, 1.0, 2.0, 3.0], "float32"))
    makers = {op.output: op for op in writing.graph.operators}
    assert number_bounds(value, makers) == (-4, 7)
    for _ in range(MOST_FOLLOWED):
        value = writing.one("Transpose", value, perm=[1, 0])
    makers = {op.output: op for op in writing.graph.operators}
    assert number_bounds(value, makers) == (-inf, inf)


def test_positions_of_maxima_have_no_bounds_of_the_numbers():
    writing = builder()
    x = writing.emit("Sigmoid", [Value("x", "float32", (1, 1, 4, 4))])[0]
    largest, positions = writing.emit("MaxPool", [x], {"kernel_shape": [2, 2]}, 2)
    makers = {v: op for op in writing.graph.operators for v in op.outputs}
    assert number_bounds(largest, makers) == (0, 1)
    assert number_bounds(positions, makers) == (-inf, inf)


def test_moved_numbers_keep_their_bounds():
    writing = builder()
    x = writing.emit("Softsign", [Value("x", "float32", (1, 4, 4, 4))])[0]
    y = writing.emit("DepthToSpace", [x], {"blocksize": 2})[0]
    makers = {v: op for op in writing.graph.operators for v in op.outputs}
    assert number_bounds(y, makers) == (-1, 1)
