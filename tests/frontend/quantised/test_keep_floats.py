"""QuantisedGraph that contractions of floats read are rounded, and never stored as bytes."""

import numpy as np
import onnx
import pytest

from compiler.frontend.interpreter import interpret
from compiler.ir.dataflow import OperatorOp
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import parse, run
from tests.lowered import import_lowered

RANDOM = np.random.default_rng(5)
CONSTANTS = {
    "s": np.float32(0.05),
    "t": np.float32(0.11),
    "z": np.uint8(117),
    "w": RANDOM.standard_normal((8, 6), "f4"),
}


def operators(model: onnx.ModelProto) -> list[OperatorOp]:
    """The operators of a model whose contractions are of floats."""
    module = import_lowered(model, contraction=Contraction.FLOATS).module
    return [op for op in module.walk() if isinstance(op, OperatorOp)]


def test_numbers_are_rounded_and_stay_floats():
    text = """g (float[2,4,8] x) => (float[4,2,6] y) {
        a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
        c = Transpose<perm=[1,0,2]>(b)  d = QuantizeLinear(c, s, z)  e = DequantizeLinear(d, s, z)
        y = MatMul(e, w) }"""
    model = parse(text, 21, **CONSTANTS)
    names = [op.type_name for op in operators(model)]
    assert names.count("Round") == 1, "what is quantised again alike is rounded once"
    assert "Cast" not in names
    x = RANDOM.standard_normal((2, 4, 8), "f4")
    imported = import_lowered(model, contraction=Contraction.FLOATS)
    (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
    rounded = (np.clip(np.rint(x / np.float32(0.05)) + 117, 0, 255) - 117) * np.float32(0.05)
    expected = rounded.transpose(1, 0, 2) @ CONSTANTS["w"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", Contraction)
def test_numbers_of_a_range_of_their_own_are_rounded(way: Contraction):
    text = """g (float[4,8] x) => (float[4,6] y) {
        a, s, z = DynamicQuantizeLinear(x)  b = DequantizeLinear(a, s, z)  y = MatMul(b, w) }"""
    model = parse(text, 21, w=CONSTANTS["w"])
    x = RANDOM.standard_normal((4, 8), "f4")
    imported = import_lowered(model, contraction=way)
    (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
    (expected,) = run(model, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_numbers_that_are_a_result_are_never_bytes():
    text = """g (float[4,8] x) => (float[4,8] y) {
        a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  y = Relu(b) }"""
    names = [op.type_name for op in operators(parse(text, 21, **CONSTANTS))]
    assert "Round" in names
    assert "Cast" not in names


def test_bytes_that_are_a_result_are_bytes():
    text = """g (float[4,8] x) => (uint8[4,8] a, float[4,6] y) {
        a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  y = MatMul(b, w) }"""
    found = operators(parse(text, 21, **CONSTANTS))
    casts = [op for op in found if op.type_name == "Cast"]
    assert ["ui8" in str(op.outputs[0].type) for op in casts] == [True]
    (product,) = [op for op in found if op.type_name == "MatMul"]
    assert product.inputs[0].owner not in casts


@pytest.mark.parametrize("way", [Contraction.TILES, Contraction.OPERANDS])
def test_bytes_that_are_contracted_as_bytes_stay_bytes(way: Contraction):
    text = """g (float[2,32] x) => (float[2,6] y, float[2,32] r) {
        a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  c = DequantizeLinear(v, t)
        y = MatMul(b, c)  r = Relu(b) }"""
    weights = RANDOM.integers(-127, 128, (32, 6)).astype("i1")
    module = import_lowered(parse(text, 21, v=weights, **CONSTANTS), contraction=way).module
    (rounded,) = [op for op in module.walk() if isinstance(op, OperatorOp) and "Clip" in str(op)]
    assert [use.operation.name for use in rounded.outputs[0].uses] == ["dataflow.op"]
