"""The interpreter of whole graphs: float64 throughout when asked, errors that name the operator."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler.errors import ModelError
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from tests.frontend.checks import parse
from tests.graphs import GraphBuilder

F16 = TensorProto.FLOAT16


def test_precise_rounds_nothing_on_the_way():
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=F16),
        helper.make_node("Mul", ["h", "w"], ["m"]),
        helper.make_node("Cast", ["m"], ["y"], to=TensorProto.BFLOAT16),
        helper.make_node("ArgMax", ["m"], ["i"], axis=1),
    ]
    inputs, outputs = (
        [helper.make_tensor_value_info(n, t, s) for n, t, s in group]
        for group in (
            [("x", 1, [1, 3])],
            [("y", TensorProto.BFLOAT16, [1, 3]), ("i", 7, [1, 1])],
        )
    )
    w = np.array([[1, 3, 7]], np.float16)
    tensors = [helper.make_tensor("w", F16, w.shape, w.tobytes(), raw=True)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    imported = import_model(model)
    x = np.array([[0.1, 0.2, 0.3]], np.float32)
    exact = interpret(imported.module, imported.weights, {"x": x}, precise=True)
    rounded = interpret(imported.module, imported.weights, {"x": x})
    assert exact["y"].dtype == np.float64
    np.testing.assert_array_equal(exact["y"], x.astype(np.float64) * w.astype(np.float64))
    assert rounded["y"].dtype == ml_dtypes.bfloat16
    assert (rounded["y"].astype(np.float64) != exact["y"]).all()
    assert exact["i"].dtype == rounded["i"].dtype == np.int64


def test_a_sum_of_many_floats_is_rounded_once():
    model = parse("agraph (float[1,100000] x) => (float[1,1] y) { y = ReduceSum (x) }")
    imported = import_model(model)
    x = np.random.default_rng(0).standard_normal((1, 100_000)).astype(np.float32)
    (got,) = interpret(imported.module, imported.weights, {"x": x}).values()
    assert got.item() == np.float32(np.sum(x.astype(np.float64)))


def test_a_result_of_another_type_than_the_ir_says_is_an_error():
    build = GraphBuilder()
    module = build.finish(build.op("Transpose", build.input("x", (2, 3)), shape=(2, 3)))
    with pytest.raises(ModelError, match=r"Transpose .* gave float32\[3, 2\]"):
        interpret(module, {}, {"x": np.zeros((2, 3), np.float32)})


def test_inputs_that_do_not_fit_are_an_error_that_names_the_operator():
    build = GraphBuilder()
    x, y = build.input("x", (2, 3)), build.input("y", (2, 3))
    module = build.finish(build.op("MatMul", x, y, shape=(2, 3)))
    zeros = np.zeros((2, 3), np.float32)
    with pytest.raises(ModelError, match=r"MatMul .* does not fit its inputs"):
        interpret(module, {}, {"x": zeros, "y": zeros})
