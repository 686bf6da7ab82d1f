"""Streams in the IR."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import PipelineError
from tests.apply_passes import run
from tests.strategies import STREAMS, Model, dataflow_graphs


@settings(max_examples=40, deadline=None)
@given(dataflow_graphs(), st.integers(1, 4), st.sampled_from(STREAMS), st.booleans())
def test_streams_are_few_and_partitions_share_one(model: Model, most: int, policy: str, cut: bool):
    partition = "partition-graph{max-nodes=3}," if cut else ""
    graph = run(
        model, f"fuse-operators,{partition}assign-streams{{policy={policy} streams={most}}}"
    )
    groups = list(graph.groups)
    streams = [group.stream.value.data for group in groups if group.stream is not None]
    assert len(streams) == len(groups)
    assert all(0 <= stream < most for stream in streams)
    partitions = [g.partition.value.data if g.partition is not None else None for g in groups]
    pairs = {(c, s) for c, s in zip(partitions, streams, strict=True) if c is not None}
    assert len(pairs) == len({partition for partition, _ in pairs})
    assert not cut or partitions == sorted(partitions, key=lambda c: c or 0)


@given(dataflow_graphs(max_operators=1))
@settings(max_examples=1, deadline=None)
def test_bad_options(model: Model):
    with pytest.raises(PipelineError, match="streams must be at least 0, not -1"):
        run(model, "fuse-operators,assign-streams{streams=-1}")
    known = "critical-path, ios, nimble, opara, optimal, ppd, sequential, wavefront, or FILE"
    with pytest.raises(PipelineError, match=f"unknown stream policy 'x'; known are {known}"):
        run(model, "assign-streams{policy=x}")
