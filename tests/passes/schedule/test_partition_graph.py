"""Partitions in the IR."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import PipelineError
from compiler.passes.base.adapter import read_dag
from tests.apply_passes import run
from tests.strategies import Model, dataflow_graphs


@settings(max_examples=30, deadline=None)
@given(dataflow_graphs(), st.integers(1, 6))
def test_partitions_follow_each_other_and_never_form_a_cycle(model: Model, most: int):
    graph = run(
        model, f"fuse-operators{{max-ops=2}},partition-graph{{policy=ppd max-nodes={most}}}"
    )
    groups = list(graph.groups)
    partitions = [g.partition.value.data for g in groups if g.partition is not None]
    assert len(partitions) == len(groups)
    assert partitions == sorted(partitions)
    assert all(partitions[u] <= partitions[v] for u, v in read_dag(graph).edges)


@settings(max_examples=10, deadline=None)
@given(dataflow_graphs())
def test_partition_twice_is_partition_once(model: Model):
    run(model, "fuse-operators,partition-graph{max-nodes=2}")
    text = str(model.module)
    run(model, "partition-graph{max-nodes=2}")
    assert str(model.module) == text


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            "fuse-operators,partition-graph{policy=best}",
            "unknown partition policy 'best'; known are balanced",
        ),
        ("fuse-operators,partition-graph{max-nodes=0}", "max-nodes must be at least 1, not 0"),
    ],
)
@given(dataflow_graphs(max_operators=1))
@settings(max_examples=1, deadline=None)
def test_bad_options(pipeline: str, message: str, model: Model):
    with pytest.raises(PipelineError, match=message):
        run(model, pipeline)
