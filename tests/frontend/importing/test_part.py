"""Specialisation of parts of a model, and the obstacles that it reports."""

import numpy as np
import onnx
import pytest

from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.part import (
    ModelPart,
    SpecialisedPart,
    specialise_part,
)
from compiler.net.graph import Value

X = Value("x", "float32", (8, 4))


def specialised(
    text: str, *inputs: Value, constants: dict[str, np.ndarray] | None = None
) -> SpecialisedPart:
    """The part of all nodes of a graph in ONNX's text form."""
    graph = onnx.parser.parse_graph(text)
    names = [output.name for output in graph.output]
    part = ModelPart(list(graph.node), names, constants or {})
    return specialise_part(part, {v.name: v for v in inputs}, ModelContext({"": 21}))


def test_a_part_without_obstacles_is_a_graph():
    found = specialised(
        "g (float[8, 4] x) => (float[8, 2] y) { y = MatMul(x, w) }",
        X,
        constants={"w": np.ones((4, 2), "f4")},
    )
    assert not found.obstacles
    assert [operator.type for operator in found.graph.operators] == ["MatMul"]


RESHAPE = "g (float[8, 4] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) }"


def test_an_input_on_which_a_shape_depends_must_be_known():
    found = specialised(RESHAPE, X, Value("s", "int64", (2,)))
    assert found.obstacles.known == {"s"}
    assert found.obstacles.askers == {0}
    assert not found.obstacles.problems
    known = Value("s", "int64", (2,), np.array([2, 16]))
    assert specialised(RESHAPE, X, known).graph.outputs[0][1].shape == (2, 16)


def test_an_input_with_another_name_is_asked_for_by_its_own():
    text = """g (float[8, 4] x, int64[2] s) => (float[a, b] y) {
        whole = Constant<value_ints = [-1]>()
        same = Reshape(s, whole)
        y = Reshape(x, same)
    }"""
    assert specialised(text, X, Value("s", "int64", (2,))).obstacles.known == {"s"}


def test_a_shape_is_known_by_the_inputs_that_it_is_computed_from():
    text = """g (float[8, 4] x, int64[1] k) => (float[a, b] y) {
        more = Add(k, k)
        s = Concat<axis = 0>(more, k)
        y = Reshape(x, s)
    }"""
    assert specialised(text, X, Value("k", "int64", (1,))).obstacles.known == {"k"}


def test_a_shape_from_large_tensors_splits_the_part_where_it_gets_small():
    text = """g (float[400, 4] x) => (float[a, b] y) {
        flat = Cast<to = 7>(x)
        axes = Constant<value_ints = [0]>()
        sums = ReduceMax<keepdims = 0>(flat, axes)
        twice = Add(sums, sums)
        y = Expand(x, twice)
    }"""
    found = specialised(text, Value("x", "float32", (400, 4)))
    assert found.obstacles.split_at == {"sums"}
    assert not found.obstacles.known


def test_a_large_content_is_a_problem_of_its_node():
    text = "g (float[8, 4] x, int64[100] s) => (float[a, b] y) { y = Expand(x, s) }"
    found = specialised(text, X, Value("s", "int64", (100,)))
    assert [*found.obstacles.problems] == [0]


@pytest.mark.parametrize("node", ["NonZero(x)", "RandomNormalLike(x)"])
def test_nodes_that_no_graph_can_hold_are_problems(node: str):
    text = f"g (float[8, 4] x) => (int64[a, b] y, float[8, 4] z) {{ y = {node}\nz = Relu(x) }}"
    found = specialised(text, X)
    assert [*found.obstacles.problems] == [0]


def test_outputs_of_types_without_kernels_are_problems():
    text = "g (float[8, 4] x) => (float8e4m3fnuz[8, 4] y) { r = Relu(x)\ny = Cast<to = 18>(r) }"
    assert [*specialised(text, X).obstacles.problems] == [1]
