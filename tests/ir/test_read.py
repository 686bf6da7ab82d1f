"""Graphs are read as operators and written again, without loss."""

from functools import partial

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import PipelineError
from compiler.frontend.importing import Imported, import_model
from compiler.graph.rewriting.weights import weight_array
from compiler.ir.emit import emit
from compiler.ir.groups import graph_of
from compiler.ir.read import read_graph
from compiler.passes.pipeline import parse as passes
from compiler.passes.runner import Runner
from examples import zoo
from tests.frontend.checks import parse
from tests.frontend.quantised.models import quantised_models

RANDOM = np.random.default_rng(5)

LOOP = """g (float[4] x, int64 n) => (float[4] y) {
    c = Constant<value = bool {1}>()
    y = Loop(n, c, x)<body = b (int64 i, bool d, float[4] s) => (bool e, float[4] t)
        { e = Identity(d)  t = Add(s, w) }> }"""

MODELS = {
    "several results": """g (float[4,6] x) => (float[4,2] v, int64[4,2] i) {
        k = Constant<value = int64[1] {2}>()  v, i = TopK(x, k) }""",
    "an omitted operand": """g (float[4,6] x) => (float[4,6] y) {
        h = Constant<value = float {0.5}>()  y = Clip(x, , h) }""",
    "attributes": """g (float[1,4,9,9] x) => (float[1,4,5,5] y) {
        y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1>(x) }""",
}


def read_and_written(imported: Imported) -> tuple[ModuleOp, dict[str, np.ndarray]]:
    """A model that went through the other form."""
    return emit(read_graph(graph_of(imported.module), partial(weight_array, imported.weights)))


def check(imported: Imported) -> None:
    """Reading and writing give the text again, and the same weights."""
    module, weights = read_and_written(imported)
    module.verify()
    assert str(module) == str(imported.module)
    assert weights.keys() == imported.weights.keys()
    for key, array in weights.items():
        assert array.dtype == imported.weights[key].dtype
        assert array.tobytes() == imported.weights[key].tobytes()


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_operators_are_read_as_they_are_written(text: str):
    check(import_model(parse(text, 21)))


def test_bodies_are_read_as_they_are_written():
    weights = RANDOM.standard_normal(4).astype("f4")
    imported = import_model(parse(LOOP, 21, w=weights), regions=True)
    assert "dataflow.loop" in str(imported.module)
    check(imported)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models(attends=True))
def test_quantised_models_are_read_as_they_are_written(model: onnx.ModelProto):
    imported = import_model(model)
    assert "QuantizeLinear" in str(imported.module)
    check(imported)


def test_constants_remember_what_stands_for_them():
    text = "g (float[4,32] x) => (float[4,8] y) { c = DequantizeLinear(v, s, z)  y = MatMul(x, c) }"
    integers = RANDOM.integers(-8, 8, (32, 8)).astype(ml_dtypes.int4)
    code = {"s": np.float32(0.02), "z": np.array(3, ml_dtypes.int4)}
    imported = import_model(parse(text, 21, v=integers, **code))
    check(imported)
    graph = read_graph(graph_of(imported.module), partial(weight_array, imported.weights))
    (matmul,) = graph.operators
    weight = matmul.operand(1)
    np.testing.assert_array_equal(weight.content, (integers.astype("f4") - 3) * np.float32(0.02))
    assert weight.code is not None
    assert weight.code.operand(0).content.tobytes() == integers.tobytes()


def test_networks_are_read_as_they_are_written():
    check(import_model(zoo.load("googlenet")))


def test_groups_are_refused():
    imported = import_model(parse("g (float[4] x) => (float[4] y) { y = Relu(x) }", 21))
    Runner().run(imported.module, passes("fuse-operators"))
    with pytest.raises(PipelineError, match="before fuse-operators"):
        read_and_written(imported)
