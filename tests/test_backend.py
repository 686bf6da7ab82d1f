"""ONNX's backend interface."""

import numpy as np
import pytest
from onnx import helper, parser
from onnx.backend.base import Backend

from compiler import backend
from compiler.errors import DeviceError

X = np.array([-1, 2], np.float32)


def test_models_run_by_position_by_name_and_alone():
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
    )
    prepared = backend.prepare(model, "CPU:0", threads=1)
    for given in ([X], {"x": X}, X):
        np.testing.assert_array_equal(prepared.run(given)[0], [1, 2])
    np.testing.assert_array_equal(backend.run_model(model, [X])[0], [1, 2])


def test_nodes_run_in_the_opset_that_is_given():
    node = helper.make_node("Split", ["x"], ["a", "b"], axis=0)
    first, second = backend.run_node(node, [X], opset=11)
    assert (first.tolist(), second.tolist()) == ([-1.0], [2.0])
    np.testing.assert_array_equal(
        backend.run_node(helper.make_node("Neg", ["x"], ["y"]), [X])[0], -X
    )


def test_devices():
    assert issubclass(backend.FlowloomBackend, Backend)
    assert backend.supports_device("CPU")
    assert not backend.supports_device("TPU:0")
    with pytest.raises(DeviceError, match="unknown device 'TPU'; the devices are CPU, CUDA"):
        backend.prepare(b"", "TPU")
