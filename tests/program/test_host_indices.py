"""Indices that nodes on the host read: clamped as in kernels, checked where that is asked for."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import compiler
from compiler.errors import FlowloomError

TEXTS = np.array([["a", "b"], ["c", "d"]], object)
IMAGES = np.arange(32, dtype=np.float32).reshape(2, 1, 4, 4)
REGIONS = np.array([[0, 0, 1, 1], [0, 0, 3, 3]], np.float32)
ML = "ai.onnx.ml"

CASES: dict[str, tuple[str, list[np.ndarray], Any, Any, dict[str, Any]]] = {
    "Gather": ("", [TEXTS], [-1, 0], [5, -9], {}),
    "Gather of columns": ("", [TEXTS], [1, 0], [5, -9], {"axis": 1}),
    "GatherElements": ("", [TEXTS], [[1, 0]], [[2, -9]], {}),
    "GatherND": ("", [TEXTS], [[1], [0]], [[7], [-9]], {}),
    "ArrayFeatureExtractor": (ML, [TEXTS], [1, 0], [5, -1], {}),
    "RoiAlign": ("", [IMAGES, REGIONS], [1, 0], [5, -1], {}),
}
"""Nodes by domain, data, indices within range, others that are clamped to these, attributes."""


def model_of(name: str, operands: list[np.ndarray]) -> onnx.ModelProto:
    """A node named `culprit`."""
    domain, *_, attributes = CASES[name]
    infos = [
        helper.make_tensor_value_info(
            f"x{i}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for i, array in enumerate(operands)
    ]
    reads, op_type = [info.name for info in infos], name.split(" ")[0]
    node = helper.make_node(op_type, reads, ["y"], "culprit", domain=domain, **attributes)
    result = helper.make_tensor_value_info("y", infos[0].type.tensor_type.elem_type, None)
    graph = helper.make_graph([node], "host", infos, [result])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("name", CASES)
def test_indices_on_the_host_are_those_of_kernels(name: str):
    _, data, valid, wrong, _ = CASES[name]
    operands = [*data, np.array(valid, np.int64)]
    fed = {f"x{i}": array for i, array in enumerate(operands)}
    model, last = model_of(name, operands), f"x{len(data)}"
    module: Any = compiler.compile(model, budget=0)
    assert module.on_host
    expected = module.run(fed)["y"]
    outside = {**fed, last: np.array(wrong, np.int64)}
    np.testing.assert_array_equal(module.run(outside)["y"], expected)
    checked = compiler.compile(model, budget=0, check_indices=True)
    np.testing.assert_array_equal(checked.run(fed)["y"], expected)
    with pytest.raises(FlowloomError, match=rf"culprit.*input {len(data)} has the index"):
        checked.run(outside)
