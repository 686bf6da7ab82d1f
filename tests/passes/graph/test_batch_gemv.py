"""Which GEMMs are batched, and that nothing else changes."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from compiler.errors import PipelineError
from compiler.graph.network import producers_of, read_network
from compiler.ir.dataflow import GraphOp, OperatorOp
from compiler.ir.types import shape_of
from tests.apply_passes import graph_of, run
from tests.graphs import GraphBuilder
from tests.strategies import Model, dataflow_graphs

SIZE = 3


def whole(shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    """Small whole numbers, so that sums are exact in any order."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


@st.composite
def recurrences(draw: st.DrawFn) -> Model:
    """GEMMs of rows and of earlier results with a few weights."""
    build = GraphBuilder()
    rows = [build.input(f"x{i}", (draw(st.integers(1, 3)), SIZE)) for i in range(4)]
    values = list(rows)
    matrices = [build.weight(whole((SIZE, SIZE), i)) for i in range(2)]
    for _ in range(draw(st.integers(2, 9))):
        value = draw(st.sampled_from(values))
        if draw(st.booleans()):
            operands = [value, draw(st.sampled_from(matrices))]
            kind = draw(st.sampled_from(["MatMul", "Gemm"]))
            values.append(build.op(kind, *operands, shape=shape_of(value.type)))
        else:
            values.append(build.op("Relu", value, shape=shape_of(value.type)))
    inputs = {f"x{i}": whole(shape_of(x.type), 9 + i) for i, x in enumerate(rows)}
    return Model(build.finish(*values[-3:]), build.weights, inputs)


def gemms(graph: GraphOp) -> list[OperatorOp]:
    """The GEMMs of a graph."""
    operators = [op for op in graph.body.block.ops if isinstance(op, OperatorOp)]
    return [op for op in operators if op.type_name in ("MatMul", "Gemm")]


def needs(value: SSAValue, op: OperatorOp) -> bool:
    """Whether a value is computed from an operator's result, by looking at every path."""
    owner = value.owner
    return owner is op or (
        isinstance(owner, OperatorOp) and any(needs(operand, op) for operand in owner.operands)
    )


@settings(max_examples=60, deadline=None)
@given(recurrences())
def test_independent_gemms_are_batched(model: Model):
    graph = run(model, "batch-gemv")
    left = gemms(graph)
    for i, first in enumerate(left):
        for second in left[i + 1 :]:
            if first.type_name == second.type_name and first.inputs[1] is second.inputs[1]:
                assert needs(second.inputs[0], first) or needs(first.inputs[0], second)
    text = str(model.module)
    run(model, "batch-gemv")
    assert str(model.module) == text


@settings(max_examples=20, deadline=None)
@given(dataflow_graphs(max_operators=24, dtype="int32"))
def test_any_graph(model: Model):
    run(model, "batch-gemv")


def test_all_steps_of_a_layer_are_one():
    build = GraphBuilder()
    values = [build.input(f"x{i}", (1, SIZE)) for i in range(5)]
    for layer in range(3):
        matrix, bias = build.weight(whole((SIZE, SIZE), layer)), build.weight(whole((SIZE,), 7))
        values = [build.op("Gemm", v, matrix, bias, shape=(1, SIZE), transB=1) for v in values]
        values = [
            values[0],
            *(build.op("Add", a, b, shape=(1, SIZE)) for a, b in pairwise(values)),
        ]
    inputs = {f"x{i}": whole((1, SIZE), i) for i in range(5)}
    graph = run(Model(build.finish(*values), build.weights, inputs), "batch-gemv")
    assert [shape_of(op.outputs[0].type) for op in gemms(graph)] == [(5, SIZE)] * 3


def test_sets_that_would_wait_for_each_other():
    """Two weights, each first used by a GEMM on which one of the other depends: one set only."""
    build = GraphBuilder()
    x, y = (build.input(name, (1, SIZE)) for name in "xy")
    a, b = (build.weight(whole((SIZE, SIZE), i)) for i in range(2))
    through_a, through_b = (build.op("MatMul", v, w, shape=(1, SIZE)) for v, w in ((x, a), (y, b)))
    last = [build.op("MatMul", v, w, shape=(1, SIZE)) for v, w in ((through_a, b), (through_b, a))]
    inputs = {name: whole((1, SIZE), i) for i, name in enumerate("xy")}
    graph = run(Model(build.finish(*last), build.weights, inputs), "batch-gemv")
    assert len(gemms(graph)) == 3


def test_large_gemms_stay():
    build = GraphBuilder()
    values = [build.input(f"x{i}", (4, SIZE)) for i in range(2)]
    matrix = build.weight(whole((SIZE, SIZE), 0))
    results = [build.op("MatMul", v, matrix, shape=(4, SIZE)) for v in values]
    inputs = {f"x{i}": whole((4, SIZE), i) for i in range(2)}
    model = Model(build.finish(*results), build.weights, inputs)
    assert len(gemms(run(model, "batch-gemv{max-rows=3}"))) == 2
    assert len(gemms(run(model, "batch-gemv"))) == 1
    network = read_network(graph_of(model))
    assert set(producers_of(network).values()) == set(range(len(network.operators)))


def test_bad_option():
    build = GraphBuilder()
    model = Model(build.finish(build.input("x", (1,))), {}, {"x": whole((1,), 0)})
    with pytest.raises(PipelineError, match="max-rows must not be negative"):
        run(model, "batch-gemv{max-rows=-1}")
