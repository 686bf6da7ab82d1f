"""The weights of a schedule, packed."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.schedule import scheduled
from compiler.driver.packed_weights import WeightPacker
from compiler.errors import ModelError
from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.ir import taskflow
from compiler.ir.types import tensor_type
from compiler.ir.values import stored_as
from compiler.passes.pipeline import DEFAULT_PIPELINE, default_pipeline, parse, split_phases
from compiler.passes.runner import Runner

MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
main (float[2,3] x) => (float[2,4] y)
<float[3,4] w = {0.5,1,2,3,4,5,6,7,8,9,10,11}, float[4] b = {1,2,3,4}>
{ z = MatMul (x, w) y = Add (z, b) }
"""


def graph_and_weights(target: str) -> tuple[taskflow.GraphOp, Mapping[str, np.ndarray]]:
    imported = import_model(onnx.parser.parse_model(MODEL))
    module: ModuleOp = imported.module
    set_target(module, target)
    Runner().run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    return scheduled(module, default_pipeline(streams=1)), imported.weights


@pytest.mark.parametrize("jobs", [1, 4])
def test_weights_are_packed_once_for_all_graphs(jobs: int):
    graph, weights = graph_and_weights("cuda:sm_90:fp16")
    packer = WeightPacker(weights, jobs)
    first = packer.pack(graph)
    again = packer.pack(graph.clone())
    assert len(first) == 2
    assert all(again[name] is array for name, array in first.items())
    assert sorted(float(array.sum()) for array in first.values()) == [10, 66.5]


def test_numbers_beyond_a_type_are_an_error():
    with pytest.raises(ModelError, match="'w' has numbers beyond the range of float16"):
        stored_as(np.array([1.0, 1e5], np.float32), tensor_type("float16", (2,)), "w")
    infinite = np.array([np.inf, 1.0], np.float32)
    assert np.isinf(stored_as(infinite, tensor_type("float16", (2,)), "w")[0])
