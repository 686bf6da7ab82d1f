"""The launch order in the IR."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import PipelineError
from compiler.ir.dataflow import GroupOp, OperatorOp
from tests.apply_passes import graph_of, run
from tests.strategies import ORDERS, Model, dataflow_graphs


@settings(max_examples=40, deadline=None)
@given(dataflow_graphs(), st.sampled_from(ORDERS), st.booleans())
def test_partitions_stay_together(model: Model, policy: str, cut: bool):
    """`run` verifies that nothing is used before its definition and that results are equal."""
    partition = "partition-graph{max-nodes=3}," if cut else ""
    run(model, f"fuse-operators{{max-ops=2}},{partition}assign-streams")
    before = {(g.kernel, g.partition, g.stream, tuple(g.outputs)) for g in graph_of(model).groups}
    graph = run(model, f"order-launches{{policy={policy}}}")
    groups = list(graph.groups)
    assert {(g.kernel, g.partition, g.stream, tuple(g.outputs)) for g in groups} == before
    changes = [a.partition != b.partition for a, b in pairwise(groups)]
    assert not cut or sum(changes) + 1 == len({g.partition for g in groups}) or not groups


@settings(max_examples=20, deadline=None)
@given(dataflow_graphs())
def test_source_order_changes_no_order_and_views_follow_what_they_show(model: Model):
    run(model, "fuse-operators")
    before = list(graph_of(model).groups)
    graph = run(model, "order-launches{policy=source}")
    assert list(graph.groups) == before
    text = str(model.module)
    run(model, "order-launches{policy=source}")
    assert str(model.module) == text
    launches = [op for op in graph.body.block.ops if isinstance(op, GroupOp | OperatorOp)]
    assert launches == list(graph.body.block.ops)[-1 - len(launches) : -1]


@given(dataflow_graphs(max_operators=1))
@settings(max_examples=1, deadline=None)
def test_bad_options(model: Model):
    known = "known are critical-path, opara, source"
    with pytest.raises(PipelineError, match=f"unknown order policy 'x'; {known}"):
        run(model, "fuse-operators,order-launches{policy=x}")
