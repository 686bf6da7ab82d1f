"""Nodes that stand before those that they read, as converters to float16 write Casts last."""

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser

from compiler.errors import ModelError
from compiler.frontend.importing import import_model
from compiler.frontend.load import read_model
from compiler.frontend.node_order import captures_of, names_read
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
    model.graph.initializer.append(numpy_helper.from_array(np.array(False), "b"))
    del model.graph.input[1]
    check(model)


def test_a_model_in_order_is_not_copied():
    model = parse("g (float[2] x) => (float[2] y) { a = Abs(x) y = Relu(a) }")
    assert read_model(model) is model


def test_nodes_on_a_cycle_are_refused():
    model = parse("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Relu(a) y = Abs(b) }")
    with pytest.raises(ModelError, match=r"topologically sorted.*'b'"):
        import_model(model)


def test_bodies_capture_what_neither_they_nor_bodies_in_them_make():
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 21]> g (float[2] x, bool c) => (float[2] y) {
        a = Neg (x) b = Abs (x)
        y = If (c) <then_branch = t () => (float[2] p) <float[2] own = {1, 2}> {
          q = Add (own, sparse)
          p = If (c) <then_branch = u () => (float[2] r) { r = Mul (q, a) },
            else_branch = v () => (float[2] s) { s = Identity (q) }> },
          else_branch = e () => (float[2] b) {}> }"""
    )
    node = model.graph.node[2]
    index = numpy_helper.from_array(np.array([1]))
    values = numpy_helper.from_array(np.ones(1, np.float32), "sparse")
    tensor = helper.make_sparse_tensor(values, index, [2])
    node.attribute[0].g.sparse_initializer.append(tensor)
    assert names_read(node) == {"a", "b", "c"}
    assert captures_of(node.attribute[0].g) == {"a", "c"}
