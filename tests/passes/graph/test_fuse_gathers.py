"""Which Gathers become one kernel with their Concat, and that their results stay the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import compiler
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from examples import zoo
from tests.apply_passes import run
from tests.graphs import GraphBuilder
from tests.kernels.gpu.emulator import COMPILER
from tests.strategies import Model

ROWS = 5


def look_up(b: GraphBuilder, ids: SSAValue, column: int, batch: int, width: int) -> SSAValue:
    """A row of a table for each index in a column."""
    chosen = b.op("Gather", ids, b.constant(column, "int64"), shape=(batch,), axis=1)
    table = b.weight(np.random.default_rng(column).standard_normal((ROWS, width)).astype("f"))
    return b.op("Gather", table, chosen, shape=(batch, width), dtype="float32", axis=0)


def recommender(batch: int, widths: list[int], again: bool = False) -> Model:
    """Rows of several tables side by side; `again` with the sum of a second row for each."""
    b = GraphBuilder()
    ids = b.input("ids", (batch, len(widths)), "int64")
    rows = [look_up(b, ids, column, batch, width) for column, width in enumerate(widths)]
    concat = b.op("Concat", *rows, shape=(batch, sum(widths)), axis=1)
    outputs = [b.op("Relu", concat)]
    if again:
        outputs.append(b.op("Tanh", look_up(b, ids, 0, batch, 3)))
    values = np.random.default_rng(0).integers(-ROWS, ROWS, (batch, len(widths)))
    return Model(b.finish(*outputs), b.weights, {"ids": values})


def groups_of(module: ModuleOp) -> list[GroupOp]:
    """The groups that the pass makes of a module."""
    Runner().run(module, parse("fuse-gathers"))
    (graph,) = module.ops
    assert isinstance(graph, GraphOp)
    return list(graph.groups)


def outside(graph: GraphOp) -> list[str]:
    """The operators outside groups."""
    return [op.type_name for op in graph.body.block.ops if isinstance(op, OperatorOp)]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.lists(st.integers(1, 4), min_size=2, max_size=6), st.booleans())
def test_look_ups_are_one_kernel(batch: int, widths: list[int], again: bool):
    graph = run(recommender(batch, widths, again), "canonicalize,fuse-gathers")
    (group,) = graph.groups
    types = [op.type_name for op in group.operators]
    assert types == ["Gather"] * (2 * len(widths)) + ["Concat"]
    left = ["Relu", "Gather", "Gather", "Tanh"] if again else ["Relu"]
    assert sorted(outside(graph)) == sorted(left)


def concat_of(b: GraphBuilder, *parts: SSAValue, width: int) -> SSAValue:
    return b.op("Concat", *parts, shape=(2, width), axis=1)


def test_what_is_computed_stays():
    """A Concat with a computed operand, which could be emplaced."""
    b = GraphBuilder()
    ids, x = b.input("ids", (2, 2), "int64"), b.input("x", (2, 3))
    rows = [look_up(b, ids, column, 2, 4) for column in range(2)]
    module = b.finish(concat_of(b, *rows, b.op("Tanh", x), width=11))
    assert not groups_of(module)


def test_what_others_need_stays():
    b = GraphBuilder()
    ids = b.input("ids", (2, 2), "int64")
    rows = [look_up(b, ids, column, 2, 4) for column in range(2)]
    module = b.finish(concat_of(b, *rows, width=8), b.op("Tanh", rows[0]))
    assert not groups_of(module)


@pytest.mark.parametrize(("rows", "groups"), [(1_000, 1), (200_000, 0)], ids=["small", "large"])
def test_large_results_are_written_in_place(rows: int, groups: int):
    """Copies that take longer than a launch run side by side."""
    b = GraphBuilder()
    ids = [b.input(name, (rows,), "int64") for name in ("a", "b")]
    table = b.weight(np.ones((ROWS, 2), np.float32))
    parts = [b.op("Gather", table, i, shape=(rows, 2), dtype="float32", axis=0) for i in ids]
    module = b.finish(b.op("Concat", *parts, shape=(2 * rows, 2), axis=0))
    assert len(groups_of(module)) == groups


def test_many_look_ups_stay_apart():
    """More operators than a kernel of the target may have."""
    assert not groups_of(recommender(1, [1] * 20).module)


@st.composite
def look_up_graphs(draw: st.DrawFn) -> Model:
    """Rows of tables by shared indices, concatenated and stacked in several orders."""
    b, batch, width = GraphBuilder(), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    ids = b.input("ids", (batch, 2), "int64")
    indices = [
        b.op("Gather", ids, b.constant(column, "int64"), shape=(batch,), axis=1)
        for column in range(2)
    ]
    rows = [
        b.op("Gather", b.weight(np.random.default_rng(table).standard_normal((ROWS, width), "f")),
             indices[draw(st.integers(0, 1))], shape=(batch, width), dtype="float32", axis=0)
        for table in range(draw(st.integers(1, 3)))
    ]  # fmt: skip
    results: list[SSAValue] = []
    for _ in range(draw(st.integers(1, 3))):
        parts = draw(st.lists(st.sampled_from(rows), min_size=2, max_size=4))
        axis = draw(st.sampled_from([-1, 0, 1]))
        if draw(st.booleans()):  # a stack
            axis, place = abs(axis), b.constant([abs(axis)], "int64")
            shape = (1, batch, width) if axis == 0 else (batch, 1, width)
            parts = [b.op("Unsqueeze", part, place, shape=shape) for part in parts]
        else:
            shape = (batch, width)
        whole = [n * len(parts) if i == axis % len(shape) else n for i, n in enumerate(shape)]
        results.append(b.op("Concat", *parts, shape=whole, axis=axis))
    if draw(st.booleans()):
        results.append(b.op("Relu", draw(st.sampled_from(rows))))
    values = np.random.default_rng(0).integers(-ROWS, ROWS, (batch, 2))
    return Model(b.finish(*results), b.weights, {"ids": values})


@settings(max_examples=60, deadline=None)
@given(look_up_graphs())
def test_any_look_ups_stay_right(model: Model):
    run(model, "canonicalize,fuse-gathers,fuse-operators")


def test_what_computes_more_than_an_index_is_not_repeated():
    b = GraphBuilder()
    x, ids = b.input("x", (4, 3)), b.input("ids", (2,), "int64")
    moved = b.op("Transpose", x, shape=(3, 4), perm=[1, 0])
    rows = [b.op("Gather", moved, ids, shape=(2, 4), dtype="float32", axis=0) for _ in range(2)]
    module = b.finish(b.op("Relu", rows[0]), b.op("Tanh", rows[1]))
    Runner().run(module, parse("fuse-gathers"))
    assert str(module).count('"Transpose"') == 1


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
def test_a_recommender_on_the_emulator():
    """DeepFM's 52 look-ups are two kernels: rows side by side, and the sum of single elements."""
    model = zoo.load("deepfm")
    module = compiler.compile(model, target="emu:sm_90:fp32")
    ids = np.random.default_rng(2).integers(0, 10_000, (1, 26))
    (found,) = module.run({"x": ids}).values()
    (expected,) = compiler.compile(model, target="cpu").run({"x": ids}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert len(module.schedule.tasks) == 8
