"""Elementwise operators before views of contractions: operands' shapes, results, what stays."""

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from xdsl.ir import SSAValue

import compiler
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.graph.fusion.hoisting import broadcast_before
from compiler.ir.dataflow import OperatorOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.tools.reference import run_onnxruntime
from tests.apply_passes import run
from tests.frontend.checks import assert_close
from tests.graphs import GraphBuilder
from tests.strategies import Model

Shape = tuple[int, ...]
BATCH, TOKENS, CHANNELS = 2, 3, 4


@st.composite
def merged(draw: st.DrawFn, sizes: Sequence[int]) -> Shape:
    """Axes of these sizes, some neighbours merged."""
    shape = [sizes[0]]
    for size in sizes[1:]:
        shape[-1:] = [shape[-1] * size] if draw(st.booleans()) else [shape[-1], size]
    return tuple(shape)


@st.composite
def views(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """A tensor's shape and that of a view of it."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    return draw(merged(sizes)), draw(merged(sizes))


@st.composite
def operands(draw: st.DrawFn, result: Shape) -> Shape:
    """A shape that broadcasts over another."""
    kept = tuple(size if draw(st.booleans()) else 1 for size in result)
    return kept[draw(st.integers(0, len(result))) :]


@given(st.data())
def test_an_operand_broadcasts_before_a_view_where_any_shape_of_it_does(data: st.DataObject):
    source, result = data.draw(views())
    operand = data.draw(operands(result))
    numbers = np.arange(prod(operand)).reshape(operand)
    expected = np.broadcast_to(numbers, result)

    def fits(shape: Shape) -> bool:
        spread = np.broadcast_to(numbers.reshape(shape), source)
        return np.array_equal(spread.reshape(result), expected)

    found = broadcast_before(source, result, operand)
    if found is not None:
        assert fits(found)
    else:
        kept = product(*({1, size} for size in source))
        assert not any(prod(shape) == numbers.size and fits(shape) for shape in kept)


OPERATORS = ("Add", "Sub", "Mul", "Max", "Relu", "Sigmoid", "Clip")


@st.composite
def models(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A MatMul, a Reshape, elementwise operators, and maybe a Reshape back, with its inputs."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=3, max_size=4))
    source, result = draw(merged(sizes)), draw(merged(sizes))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    inner = draw(st.integers(1, 3))
    arrays = {"x": (*source[:-1], inner), "w": (inner, source[-1])}
    tensors = {name: random.standard_normal(shape, np.float32) for name, shape in arrays.items()}
    constants = {"shape": np.array(result), "back": np.array(source)}
    nodes = [("MatMul", ["x", "w"]), ("Reshape", ["t0", "shape"])]
    for number in range(draw(st.integers(1, 4))):
        name, last = draw(st.sampled_from(OPERATORS)), f"t{len(nodes) - 1}"
        others = [draw(operands(result))] * (name in OPERATORS[:4])
        others += [()] * (name == "Clip")
        for shape in others:
            kept = constants if draw(st.booleans()) else tensors
            kept[f"c{number}"] = random.standard_normal(shape, np.float32)
        pair = [last, *(f"c{number}" for _ in others)]
        nodes.append((name, pair if name == "Clip" else draw(st.permutations(pair))))
    if draw(st.booleans()):
        nodes.append(("Reshape", [f"t{len(nodes) - 1}", "back"]))
    made = [helper.make_node(name, ins, [f"t{i}"]) for i, (name, ins) in enumerate(nodes)]
    infos = [helper.make_tensor_value_info(n, 1, a.shape) for n, a in tensors.items()]
    output = helper.make_tensor_value_info(f"t{len(nodes) - 1}", 1, None)
    initializers = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(made, "g", infos, [output], initializers)
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), tensors


@settings(max_examples=60, deadline=None)
@given(models())
def test_results_are_onnxruntimes(drawn: tuple[onnx.ModelProto, dict[str, np.ndarray]]):
    model, inputs = drawn
    imported = import_model(model)
    before = interpret(imported.module, imported.weights, inputs)
    Runner().run(imported.module, parse("canonicalize"))
    found = interpret(imported.module, imported.weights, inputs)
    for name, array in before.items():
        np.testing.assert_array_equal(found[name], array)
    assert_close([*found.values()], [*run_onnxruntime(model, inputs).values()])


Case = Callable[[GraphBuilder, SSAValue], SSAValue]


def reshape(b: GraphBuilder, x: SSAValue, *shape: int) -> SSAValue:
    return b.op("Reshape", x, b.constant(shape, "int64"), shape=shape)


def weight(b: GraphBuilder, *shape: int) -> SSAValue:
    return b.weight(np.random.default_rng(0).random(shape, np.float32))


def rows(b: GraphBuilder, x: SSAValue) -> SSAValue:
    """The rows of a MatMul of a batch."""
    shape = (BATCH, TOKENS, CHANNELS)
    matmul = b.op("MatMul", x, weight(b, CHANNELS, CHANNELS), shape=shape)
    return reshape(b, matmul, BATCH * TOKENS, CHANNELS)


def normalised(b: GraphBuilder, x: SSAValue) -> SSAValue:
    """Rows of a MatMul with a scale and a shift of each column, as a batch again."""
    scaled = b.op("Mul", rows(b, x), weight(b, CHANNELS))
    return reshape(b, b.op("Add", scaled, weight(b, CHANNELS)), BATCH, TOKENS, CHANNELS)


def gated(b: GraphBuilder, x: SSAValue) -> SSAValue:
    y = rows(b, x)
    return b.op("Mul", y, b.op("Sigmoid", y))


def channels(b: GraphBuilder, x: SSAValue) -> SSAValue:
    """Channels of an image, in one spatial axis, with one number each."""
    image = reshape(b, x, BATCH, TOKENS, 2, 2)
    conv = b.op("Conv", image, weight(b, 5, TOKENS, 1, 1), shape=(BATCH, 5, 2, 2))
    return b.op("Add", reshape(b, conv, BATCH, 5, 4), weight(b, 5, 1))


def added(b: GraphBuilder, x: SSAValue) -> SSAValue:
    """The sum of rows of two MatMuls, of which one is of rows."""
    flat = reshape(b, x, BATCH * TOKENS, CHANNELS)
    shape = (BATCH * TOKENS, CHANNELS)
    return b.op("Add", rows(b, x), b.op("MatMul", flat, weight(b, CHANNELS, CHANNELS), shape=shape))


HOISTED: dict[str, tuple[Case, list[str]]] = {
    "scale and shift": (normalised, ["MatMul", "Mul", "Add"]),
    "Relu": (lambda b, x: b.op("Relu", normalised(b, x)), ["MatMul", "Mul", "Add", "Relu"]),
    "number": (lambda b, x: b.op("Mul", b.constant(2), rows(b, x)), ["MatMul", "Mul", "Reshape"]),
    "gate": (gated, ["MatMul", "Sigmoid", "Mul", "Reshape"]),
    "channels": (channels, ["Reshape", "Conv", "Add", "Reshape"]),
    "whole": (
        lambda b, x: b.op("Add", rows(b, x), weight(b, BATCH * TOKENS, CHANNELS)),
        ["MatMul", "Add", "Reshape"],
    ),
    "tensor": (
        lambda b, x: b.op("Add", rows(b, x), reshape(b, x, BATCH * TOKENS, CHANNELS)),
        ["MatMul", "Add", "Reshape"],
    ),
}
STAYS: dict[str, tuple[Case, list[str]]] = {
    "another contraction": (added, ["Reshape", "MatMul", "Reshape", "MatMul", "Add"]),
    "a tensor computed with the operator": (
        lambda b, x: b.op("Add", rows(b, x), b.op("Tanh", reshape(b, x, BATCH * TOKENS, CHANNELS))),
        ["MatMul", "Reshape", "Reshape", "Tanh", "Add"],
    ),
    "read in another shape": (
        lambda b, x: b.op(
            "Sub",
            b.op("Relu", y := rows(b, x)),
            b.op("Softmax", reshape(b, y, 1, BATCH * TOKENS, CHANNELS)),
        ),
        ["MatMul", "Reshape", "Relu", "Reshape", "Softmax", "Sub"],
    ),
    "numbers of rows": (
        lambda b, x: b.op("Add", rows(b, x), weight(b, BATCH * TOKENS, 1)),
        ["MatMul", "Add", "Reshape"],
    ),
    "numbers of parts of a merged axis": (
        lambda b, x: b.op(
            "Add",
            reshape(b, rows(b, x), BATCH, TOKENS, 2, 2),
            weight(b, TOKENS, 1, 2),
        ),
        ["MatMul", "Reshape", "Add"],
    ),
    "numbers along the second axis": (
        lambda b, x: b.op("BatchNormalization", rows(b, x), *[weight(b, CHANNELS)] * 4),
        ["MatMul", "Reshape", "BatchNormalization"],
    ),
    "no contraction": (
        lambda b, x: b.op("Relu", reshape(b, b.op("Softmax", x), BATCH * TOKENS, CHANNELS)),
        ["Softmax", "Reshape", "Relu"],
    ),
    "read elsewhere": (
        lambda b, x: b.op("Sub", y := rows(b, x), b.op("Softmax", y)),
        ["MatMul", "Reshape", "Softmax", "Sub"],
    ),
    "axes of one": (
        lambda b, x: b.op(
            "Relu",
            reshape(
                b,
                b.op("MatMul", x, weight(b, 4, 4), shape=(BATCH, TOKENS, 4)),
                *(1, BATCH, TOKENS, 4),
            ),
        ),
        ["MatMul", "Reshape", "Relu"],
    ),
}
CASES = HOISTED | STAYS


def left_of(case: Case, shape: Shape = (BATCH, TOKENS, CHANNELS)) -> list[str]:
    """The operators that canonicalize leaves of a graph with a batch of rows."""
    build = GraphBuilder()
    module = build.finish(case(build, build.input("x", shape)))
    values = np.random.default_rng(1).standard_normal(shape, np.float32)
    graph = run(Model(module, build.weights, {"x": values}), "canonicalize")
    return [op.type_name for op in graph.body.block.ops if isinstance(op, OperatorOp)]


@pytest.mark.parametrize("name", CASES)
def test_what_is_lifted_and_what_stays(name: str):
    case, left = CASES[name]
    assert left_of(case) == left


def test_no_rows():
    def empty(b: GraphBuilder, x: SSAValue) -> SSAValue:
        matmul = b.op("MatMul", x, weight(b, CHANNELS, CHANNELS), shape=(0, TOKENS, CHANNELS))
        return b.op("Relu", reshape(b, matmul, 0, CHANNELS))

    assert left_of(empty, (0, TOKENS, CHANNELS)) == ["MatMul", "Reshape", "Relu"]


def test_a_batch_normalisation_of_merged_rows_is_the_epilogue_of_a_matmul():
    """On a GPU target, whose GEMMs have epilogues, at a batch of several."""
    text = """
    <ir_version: 9, opset_import: ["": 18]>
    main (float[8,49,64] x) => (float[8,49,32] y)
        <int64[2] flat = {392, 32}, int64[3] back = {8, 49, 32}> {
        a = MatMul (x, w)  b = Reshape (a, flat)  c = BatchNormalization (b, s, t, m, v)
        d = Reshape (c, back)  y = HardSwish (d)
    }
    """
    model, random = onnx.parser.parse_model(text), np.random.default_rng(0)
    for name, shape in {"w": (64, 32), **dict.fromkeys("stmv", (32,))}.items():
        array = random.uniform(0.5, 1.5, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    module = compiler.compile(model, target="cuda:sm_90:fp32", budget=0)
    assert len(module.schedule.tasks) == 1
