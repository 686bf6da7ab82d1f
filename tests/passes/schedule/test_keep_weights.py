"""Weights that several groups read, in the IR."""

from itertools import pairwise

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from onnx import helper, numpy_helper

from compiler.errors import PipelineError
from compiler.frontend.importing import import_model
from compiler.graph.targets import caches_of, set_target
from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of
from compiler.passes.base.adapter import read_placement, weights_read
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.target.caches import (
    CACHES,
    TYPICAL_CACHE,
    TYPICAL_LAST_CACHE,
    data_caches,
    last_cache_bytes,
)
from tests.apply_passes import graph_of, run
from tests.strategies import Model, dataflow_graphs

HIDDEN, STEPS = 8, 4
WEIGHT_BYTES = 4 * HIDDEN * HIDDEN * 4


def recurrence() -> Model:
    """A bidirectional LSTM, unrolled."""
    random = np.random.default_rng(0)
    shapes = {"W": (2, 4 * HIDDEN, 3), "R": (2, 4 * HIDDEN, HIDDEN)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node(
        "LSTM", ["X", "W", "R"], ["Y"], hidden_size=HIDDEN, direction="bidirectional"
    )
    x = helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, (STEPS, 1, 3))
    y = helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, (STEPS, 2, 1, HIDDEN))
    graph = helper.make_graph([node], "recurrence", [x], [y], weights)
    imported = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    array = random.standard_normal((STEPS, 1, 3)).astype(np.float32)
    return Model(imported.module, imported.weights, {"X": array})


def recurrent_reads(graph: GraphOp) -> list[str]:
    """The weights that steps read, in launch order."""
    names = [name for read in weights_read(graph) for name in read]
    return [name for name in names if names.count(name) > 1]


@pytest.mark.parametrize(("cache", "changes"), [(3 * WEIGHT_BYTES, 5), (3 * WEIGHT_BYTES // 2, 1)])
def test_directions_take_turns_only_where_their_weights_fit(cache: int, changes: int):
    model = recurrence()
    head = "canonicalize,fuse-operators,assign-streams{streams=2},order-launches"
    graph = run(model, f"{head},keep-weights{{cache-bytes={cache}}}")
    reads = recurrent_reads(graph)
    assert len(reads) == 2 * (STEPS - 1)
    assert len(set(reads)) == 2
    assert sum(a != b for a, b in pairwise(reads)) == changes
    assert {*read_placement(graph).streams} == {0, 1}


def test_a_gpu_keeps_its_order():
    model = recurrence()
    run(model, "canonicalize,fuse-operators,assign-streams{streams=2},order-launches")
    set_target(model.module, "cuda:sm_90:tf32")
    before = list(graph_of(model).groups)
    Runner().run(model.module, parse(f"keep-weights{{cache-bytes={WEIGHT_BYTES}}}"))
    assert list(graph_of(model).groups) == before


def test_caches_are_this_hosts_or_typical_ones():
    module = recurrence().module
    known = {
        "cpu": (data_caches(CACHES).get(2, TYPICAL_CACHE), last_cache_bytes()),
        "cpu:x86-64-v3": (TYPICAL_CACHE, TYPICAL_LAST_CACHE),
        "cuda:sm_90:tf32": (),
    }
    for target, sizes in known.items():
        set_target(module, target)
        (graph,) = graphs_of(module)
        assert caches_of(graph) == sizes


@settings(max_examples=20, deadline=None)
@given(dataflow_graphs())
def test_results_stay_and_twice_is_once(model: Model):
    run(model, "fuse-operators{max-ops=2},assign-streams,order-launches")
    run(model, "keep-weights{cache-bytes=64}")
    text = str(model.module)
    run(model, "keep-weights{cache-bytes=64}")
    assert str(model.module) == text


@settings(max_examples=1, deadline=None)
@given(dataflow_graphs(max_operators=1))
def test_bad_options(model: Model):
    with pytest.raises(PipelineError, match="cache-bytes must not be negative, not -1"):
        run(model, "fuse-operators,keep-weights{cache-bytes=-1}")
