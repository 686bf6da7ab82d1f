"""Pads of long axes compute the positions that those of short ones read from a table."""

from typing import Literal

import numpy as np
import pytest
from onnx import helper, numpy_helper

import compiler


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_a_long_padded_axis(mode: Literal["edge", "reflect", "wrap"]):
    x = np.arange(40_000, dtype=np.float32)
    pads = numpy_helper.from_array(np.array([30_003, 9]), "pads")
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)],
        "g",
        [helper.make_tensor_value_info("x", 1, [40_000])],
        [helper.make_tensor_value_info("y", 1, None)],
        [pads],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    found = compiler.compile(model, budget=0).run({"x": x})["y"]
    np.testing.assert_array_equal(found, np.pad(x, (30_003, 9), mode))
