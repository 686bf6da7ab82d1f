"""Invariants of every fusion."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

from compiler.errors import PipelineError
from compiler.frontend.importing import import_model
from compiler.graph.aliases import plan_views
from compiler.graph.fusion.rules import DEEPEST_FUSION
from compiler.graph.fusion.state import MOST_FUSED_OPERATORS
from compiler.graph.signature import signature
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp
from compiler.net.operators import KINDS, Kind
from compiler.passes.base.adapter import read_dag
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.support.dag import DAG
from tests.apply_passes import graph_of, run
from tests.strategies import Model, dataflow_graphs

ANCHORS = (Kind.CONTRACTION, Kind.REDUCTION, Kind.OPAQUE)


@settings(max_examples=1, deadline=None)
@given(dataflow_graphs())
def test_bad_option(model: Model):
    for number in (-1, MOST_FUSED_OPERATORS + 1):
        with pytest.raises(PipelineError, match=f"max-ops must be from 0 to 128, not {number}"):
            run(model, f"fuse-operators{{max-ops={number}}}")


def check_groups(graph: GraphOp, most: int) -> None:
    """The postconditions, recomputed from the result."""
    plan = plan_views(graph)
    assert not plan.copies
    for op in graph.body.block.ops:
        assert not isinstance(op, OperatorOp) or op in plan.views
    for group in graph.groups:
        kinds = [KINDS[op.type_name] for op in group.operators]
        assert sum(kind in ANCHORS for kind in kinds) <= 1
        assert Kind.OPAQUE not in kinds or len(kinds) == 1
        assert sum(kind is not Kind.VIEW for kind in kinds) <= most
        assert group.kernel is not None
        assert group.kernel.data == signature(group)
        assert all(result.first_use is not None for result in group.outputs)


FUSE = (
    "fuse-operators",
    "fuse-operators{max-ops=3}",
    "fuse-operators{contraction-prologue=true injective-epilogue=true}",
)


@settings(max_examples=80, deadline=None)
@given(dataflow_graphs(max_operators=24), st.sampled_from(FUSE))
def test_any_graph(model: Model, pipeline: str):
    graph = run(model, pipeline)
    check_groups(graph, 3 if "max-ops" in pipeline else 32)
    text = str(model.module)
    run(model, pipeline)
    assert str(model.module) == text


@settings(max_examples=40, deadline=None)
@given(dataflow_graphs(max_operators=24))
def test_the_longest_path_does_not_grow(model: Model):
    single = Model(model.module.clone(), model.weights, model.inputs)
    before: DAG = read_dag(run(single, "fuse-operators{max-ops=1}"))
    after: DAG = read_dag(run(model, "fuse-operators"))
    assert after.longest_path() <= before.longest_path()
    assert len(after) <= len(before)


@settings(max_examples=20, deadline=None)
@given(dataflow_graphs())
def test_every_node_keeps_its_name(model: Model):
    run(model, "canonicalize")
    before = {op.node_name for op in graph_of(model).body.block.ops if isinstance(op, OperatorOp)}
    graph = run(model, "fuse-operators")
    after = {op.node_name for group in graph.groups for op in group.operators}
    after |= {op.node_name for op in graph.body.block.ops if isinstance(op, OperatorOp)}
    assert before == after - {""}
    assert all(isinstance(op, GroupOp) for op in graph.groups)


def sizes(body: str) -> list[int]:
    """The sizes of the groups that a graph of text has after fusion, in order."""
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        g (int64[64] x) => (int64[64] y)
        <int64[1] f = {{-1}}, int64[1] e = {{-65}}, int64[1] a = {{0}}> {{ {body} }}"""
    module = import_model(parser.parse_model(text)).module
    Runner().run(module, parse("fuse-operators"))
    return [len(tuple(group.operators)) for group in module.walk() if isinstance(group, GroupOp)]


def test_indices_are_rewritten_a_few_times_only():
    one = "b{0} = Slice (b{1}, f, e, a, f) "
    chain = "".join(one.format(i, i - 1) for i in range(1, 13))
    found = sizes(f"b0 = Neg (x) {chain} y = Neg (b12)")
    assert max(found) <= DEEPEST_FUSION + 2
    assert sum(found) == 14


def test_indices_of_indices_nest_a_few_times_only():
    one = "b{0} = Gather (b{1}, b{1}) "
    chain = "".join(one.format(i, i - 1) for i in range(1, 13))
    found = sizes(f"b0 = Neg (x) {chain} y = Neg (b12)")
    assert max(found) <= DEEPEST_FUSION + 2
    assert sum(found) == 14
