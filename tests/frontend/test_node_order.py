"""Nodes that stand before those that they read, as converters to float16 write Casts last."""

import numpy as np
import onnx
import pytest

from compiler.errors import ModelError
from compiler.frontend import import_model
from compiler.frontend.load import read_model
from tests.frontend.checks import check, parse

TEXT = """<ir_version: 8, opset_import: ["": 18, "own": 1]>
    g (float[3] x, bool b) => (float[3] y) {
        y = Add(d, x)
        d = If(b) <
            then_branch = g1 () => (float[3] s) { s = Mul(q, c) q = Neg(c) },
            else_branch = g2 () => (float[3] t) { t = own.twice(c) }
        >
        c = Relu(a)
        a = Abs(x)
    }
    <domain: "own", opset_import: ["": 18]> twice (i) => (o) { o = Add(j, j) j = Exp(i) }"""


def test_nodes_of_graphs_bodies_and_functions_are_put_in_order():
    model = parse(TEXT)
    before = model.SerializeToString()
    assert [node.op_type for node in read_model(model).graph.node] == ["Abs", "Relu", "If", "Add"]
    assert model.SerializeToString() == before
    model = read_model(model)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(False), "b"))
    del model.graph.input[1]
    check(model)


def test_a_model_in_order_is_not_copied():
    model = parse("g (float[2] x) => (float[2] y) { a = Abs(x) y = Relu(a) }")
    assert read_model(model) is model


def test_nodes_on_a_cycle_are_refused():
    model = parse("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Relu(a) y = Abs(b) }")
    with pytest.raises(ModelError, match=r"topologically sorted.*'b'"):
        import_model(model)
