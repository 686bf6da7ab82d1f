"""Outputs that share a name, a value, or an input with others."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import compiler
from compiler.errors import ModelError

TEXT = """<ir_version: 10, opset_import: ["": 21]>
g (float[2,3] x)
=> (float[2,3] y, float[2,3] y, float[2,3] x, float[3] w, float[2,3] z, float[2,3] n)
<float[3] w = {1, 2, 3}> { y = Add(x, w) z = Identity(y) n = Neg(z) }"""


def test_outputs_of_one_name_and_of_one_value():
    model = onnx.parser.parse_model(TEXT)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)}
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(None, feeds), strict=True))
    results = compiler.compile(model).run(feeds)
    assert list(results) == ["y", "x", "w", "z", "n"]
    for name, array in results.items():
        np.testing.assert_array_equal(array, expected[name])


def test_outputs_of_one_name_and_two_types():
    model = onnx.parser.parse_model(TEXT)
    model.graph.output[1].type.tensor_type.shape.dim[0].dim_value = 5
    with pytest.raises(ModelError, match="the output 'y' is listed twice, with different types"):
        compiler.compile(model)


def test_inputs_of_one_name():
    model = onnx.parser.parse_model(TEXT)
    model.graph.input.append(model.graph.input[0])
    with pytest.raises(ModelError, match="'x' has been used as graph input names multiple times"):
        compiler.compile(model)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_split_whose_middle_part_is_left_out(axis: int):
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[3,3] x) 
    => (float[a,b] y, float[a,b] z)
    {{ p, , q = Split<axis={axis}, num_outputs=3>(x) y = Neg(p) z = Neg(q) }}"""
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    results = compiler.compile(onnx.parser.parse_model(text)).run({"x": x})
    first, _, last = np.split(-x, 3, axis)
    np.testing.assert_array_equal(results["y"], first)
    np.testing.assert_array_equal(results["z"], last)
