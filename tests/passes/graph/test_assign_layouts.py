"""Invariants of every choice of layouts, and the layouts of real models."""

from collections.abc import Mapping
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from compiler.artifact.module import Module
from compiler.driver.build import build_module
from compiler.driver.settings import Settings
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.graph.aliases import plan_views
from compiler.graph.layouts import (
    AliasClass,
    blocked_convolutions,
    choose_blocked,
    read_alias_classes,
)
from compiler.graph.signature import signature
from compiler.ir.dataflow import GraphOp, OperatorOp
from compiler.ir.layouts import block_of, stored_block
from compiler.ir.types import dtype_of
from compiler.passes.graph.assign_layouts import apply_layouts
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from examples import zoo
from tests.apply_passes import graph_of, run
from tests.graphs import GraphBuilder
from tests.strategies import Model, dataflow_graphs

Array = NDArray[Any]

ALWAYS = "assign-layouts{policy=always block-bytes=8}"
SCHEDULE = "assign-streams,order-launches,lower-to-taskflow,insert-sync,elide-sync,plan-memory"


def conversions(graph: GraphOp) -> int:
    """Kernels that only change a tensor's layout."""
    copies = (g for g in graph.groups if [op.type_name for op in g.operators] == ["Identity"])
    return sum(stored_block(g.inputs[0].type) != stored_block(g.outputs[0].type) for g in copies)


@settings(max_examples=25, deadline=None)
@given(dataflow_graphs(max_operators=24))
def test_any_graph(model: Model):
    before = [op.name for op in run(model, "fuse-operators").body.block.ops]
    graph = run(model, ALWAYS)
    assert [op.name for op in graph.body.block.ops] == before
    plan = plan_views(graph)
    assert not plan.copies
    for op in graph.body.block.ops:
        assert not isinstance(op, OperatorOp) or op in plan.views
    for group in graph.groups:
        assert group.kernel is not None
        assert group.kernel.data == signature(group)
    text = str(model.module)
    run(model, ALWAYS)
    assert str(model.module) == text
    run(model, "assign-layouts{policy=never}")
    assert "channels" not in str(model.module)


def network() -> Model:
    """A stem, a concatenation of branches with pooling, a residual, a depthwise block, a head."""
    b = GraphBuilder()
    random = np.random.default_rng(5)

    def weight(*shape: int) -> SSAValue:
        return b.weight(random.uniform(-0.5, 0.5, shape).astype(np.float32))

    def conv(x: SSAValue, filters: int, channels: int, size: int = 1, group: int = 1) -> SSAValue:
        shape = (1, filters, 9, 7)
        w = weight(filters, channels // group, size, size)
        y = b.op("Conv", x, w, shape=shape, pads=[size // 2] * 4, group=group,
                 kernel_shape=[size, size])  # fmt: skip
        return b.op("Relu", y)

    x = b.input("x", (1, 3, 9, 7))
    stem = conv(x, 8, 3, 3)
    pooled = b.op("MaxPool", stem, shape=(1, 8, 9, 7), kernel_shape=[3, 3], pads=[1] * 4)
    concat = b.op("Concat", conv(stem, 4, 8), conv(pooled, 8, 8, 3), axis=1, shape=(1, 12, 9, 7))
    block = conv(conv(concat, 12, 12, 3, 12), 12, 12)
    total = b.op("Add", block, concat)
    head = b.op("GlobalAveragePool", conv(total, 6, 12), shape=(1, 6, 1, 1))
    flat = b.op("Reshape", head, b.constant([1, 6], "int64"), shape=(1, 6))
    y = b.op("MatMul", flat, weight(6, 5), shape=(1, 5))
    inputs: dict[str, Array] = {"x": random.uniform(-1, 1, (1, 3, 9, 7)).astype(np.float32)}
    return Model(b.finish(y), b.weights, inputs)


def outputs_of(model: Model) -> Mapping[str, Array]:
    """Build kernels for this CPU and run the model."""
    module = model.module.clone()
    pipeline = f"partition-graph{{policy=none}},{SCHEDULE}"
    built = build_module(module, model.weights, Settings("cpu", pipeline, jobs=1))
    return Module(built.content).run(model.inputs)


def check_outputs(model: Model) -> None:
    """Compare with numpy."""
    expected = interpret(model.module, model.weights, model.inputs)
    outputs = outputs_of(model)
    for name, array in expected.items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-4, atol=1e-5)


def test_kernels_of_blocked_tensors_compute_the_same():
    model = network()
    run(model, "fuse-operators,assign-layouts{policy=always}")
    check_outputs(model)


@settings(max_examples=15, deadline=None)
@given(dataflow_graphs(max_operators=12), st.randoms(use_true_random=False))
def test_any_layouts_that_can_be_compute_the_same(model: Model, random: Random):
    graph = run(model, "fuse-operators")
    found = read_alias_classes(graph, 8)
    blocked = [storage.able and random.random() < 0.8 for storage in found.classes]
    apply_layouts(graph, found, blocked, 8)
    model.module.verify()
    assert not plan_views(graph).copies
    check_outputs(model)


def test_convolutions_read_blocks_and_the_rest_follows():
    model = network()
    graph = run(model, "fuse-operators,assign-layouts{policy=always}")
    found = list(blocked_convolutions(graph.groups))
    assert [blocked for _, blocked in found] == [False] + [True] * 5
    by_name = {g.kernel.data.split("_")[0]: g for g in graph.groups if g.kernel is not None}
    assert block_of(by_name["MaxPool"].outputs[0].type) == 4
    assert block_of(by_name["MatMul"].inputs[0].type) == 0


def test_sixteen_bits_are_blocked_by_eight():
    model = network()
    Runner().run(model.module, parse("fuse-operators,reduce-precision{storage=float16}"))
    Runner().run(model.module, parse("assign-layouts{policy=always}"))
    found = [v for group in graph_of(model).groups for v in group.inputs if block_of(v.type)]
    assert found
    assert {(dtype_of(v.type), block_of(v.type)) for v in found} == {("float16", 8)}


def test_operands_of_matmuls_are_row_major():
    b = GraphBuilder()
    x = b.input("x", (1, 4, 4, 4))
    w = b.weight(np.ones((4, 4, 1, 1), np.float32))
    first = b.op("Relu", x)
    y = b.op("Conv", first, w, shape=(1, 4, 4, 4), kernel_shape=[1, 1])
    z = b.op("MatMul", first, first)
    model = Model(b.finish(y, z), b.weights, {"x": np.ones((1, 4, 4, 4), np.float32)})
    graph = run(model, "fuse-operators,assign-layouts{policy=always}")
    assert all(block_of(v.type) == 0 for group in graph.groups for v in group.inputs)


@pytest.mark.parametrize("name", ["resnet50", "googlenet", "inception_v3", "unet"])
def test_models_need_no_conversion(name: str):
    module = import_model(zoo.load(name)).module
    Runner(verified=False).run(module, parse("canonicalize,fuse-operators"))
    (graph,) = module.ops
    assert isinstance(graph, GraphOp)
    kernels = len(list(graph.groups))
    Runner().run(module, parse("assign-layouts{policy=always}"))
    assert (len(list(graph.groups)), conversions(graph)) == (kernels, 0)
    convolutions = list(blocked_convolutions(graph.groups))
    assert sum(blocked for _, blocked in convolutions) == len(convolutions) - 1
    Runner(verified=False).run(module, parse(f"partition-graph{{policy=none}},{SCHEDULE}"))


@given(st.data())
def test_no_single_change_would_gain(data: st.DataObject):
    count = data.draw(st.integers(1, 6))
    amounts = st.integers(-8, 8)
    classes = [AliasClass(data.draw(st.booleans()), data.draw(amounts)) for _ in range(count)]
    number = st.integers(0, count - 1)
    losses = st.tuples(number, number, st.integers(0, 6).map(float))
    mismatches = data.draw(st.lists(losses, max_size=8))

    def value(chosen: list[bool]) -> float:
        gain = sum(s.gain for s, b in zip(classes, chosen, strict=True) if b)
        return gain - sum(loss for u, v, loss in mismatches if chosen[u] != chosen[v])

    chosen = choose_blocked(classes, mismatches)
    assert all(s.able or not b for s, b in zip(classes, chosen, strict=True))
    for v in range(count):
        other = [b != (u == v) for u, b in enumerate(chosen)]
        assert not classes[v].able or value(other) <= value(chosen)
    able = [(False, True) if s.able else (False,) for s in classes]
    assert value(chosen) <= max(value(list(choice)) for choice in product(*able))
