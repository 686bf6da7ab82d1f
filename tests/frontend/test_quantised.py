"""Quantised operators agree with onnxruntime to the last integer."""

import ml_dtypes
import numpy as np
import pytest

from compiler.frontend.interpreter import interpret
from tests.frontend.checks import check, counts, parse
from tests.lowered import import_lowered

GENERATOR = np.random.default_rng(5)


def integers(dtype: str, *shape: int) -> np.ndarray:
    """Random integers of the whole range of an 8 bit dtype."""
    limits = np.iinfo(dtype)
    return GENERATOR.integers(limits.min, limits.max + 1, shape).astype(dtype)


def signed_weights(*shape: int) -> np.ndarray:
    """Random integers of 7 bits: on CPUs without VNNI onnxruntime saturates larger ones."""
    return GENERATOR.integers(-64, 64, shape).astype(np.int8)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("opset", [10, 13, 21])
def test_quantize_and_dequantize_by_tensor(dtype: str, opset: int):
    text = """g (float[3,4] x) => (float[3,4] y) {
        q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"""
    check(parse(text, opset, s=np.float32(0.03), z=np.array(3, dtype)))


def test_quantize_and_dequantize_by_axis():
    text = """g (float[2,3,4] x) => (float[2,3,4] y) {
        q = QuantizeLinear<axis=1>(x, s, z) y = DequantizeLinear<axis=-2>(q, s, z) }"""
    check(parse(text, s=np.array([0.03, 0.5, 0.01], np.float32), z=integers("int8", 3)))


@pytest.mark.parametrize(("precision", "dtype"), [(1, "float32"), (10, "float16")])
def test_quantize_divides_in_the_precision_asked_for(precision: int, dtype: str):
    x, scale = GENERATOR.uniform(-3, 3, 500).astype(np.float32), np.float32(0.0313)
    text = f"""g (float[500] x) => (int8[500] y) {{
        y = QuantizeLinear<precision={precision}>(x, s, z) }}"""
    imported = import_lowered(parse(text, 23, s=scale, z=np.int8(3)))
    (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
    quotients = x.astype(dtype) / scale.astype(dtype)
    np.testing.assert_array_equal(found, np.rint(quotients).astype(np.int8) + np.int8(3))


def test_dequantize_by_block():
    text = """g (int8[2,6] x) => (float[2,6] y) {
        y = DequantizeLinear<axis=1, block_size=3>(x, s, z) }"""
    scale = np.abs(GENERATOR.standard_normal((2, 2))).astype(np.float32)
    check(parse(text, 21, s=scale, z=integers("int8", 2, 2)))


def test_dequantize_a_constant_of_four_bits_by_block():
    text = """g (float[2,6] x) => (float[2,6] y) {
        d = DequantizeLinear<axis=1, block_size=3>(w, s, z) y = Add(x, d) }"""
    scale = np.abs(GENERATOR.standard_normal((2, 2))).astype(np.float32)
    weights = GENERATOR.integers(-8, 8, (2, 6)).astype(ml_dtypes.int4)
    check(parse(text, 21, s=scale, w=weights, z=np.array([[1, 2], [-3, 0]], ml_dtypes.int4)))


def test_dequantize_a_vector_by_block():
    text = """g (int8[6] x) => (float[6] y) {
        y = DequantizeLinear<axis=0, block_size=3>(x, s, z) }"""
    scale = np.abs(GENERATOR.standard_normal(2)).astype(np.float32)
    check(parse(text, 21, s=scale, z=integers("int8", 2)))


def test_dynamic_quantization():
    text = """g (float[3,8] x) => (float[3,5] y) {
        q, s, z = DynamicQuantizeLinear(x) p = MatMulInteger(q, w, z, wz)
        f = Cast<to=1>(p) m = Mul(s, ws) y = Mul(f, m) }"""
    weights = {"w": signed_weights(8, 5), "wz": np.int8(2), "ws": np.float32(0.02)}
    found = counts(check(parse(text, **weights)))
    assert "DynamicQuantizeLinear" not in found


def test_integer_convolution():
    text = """g (uint8[1,3,6,6] x) => (int32[1,4,6,6] y) {
        y = ConvInteger<pads=[1,1,1,1]>(x, w, xz, wz) }"""
    values = {"w": integers("uint8", 4, 3, 3, 3), "xz": np.uint8(7), "wz": np.uint8(9)}
    check(parse(text, **values))


def test_quantised_convolution():
    text = """g (uint8[1,3,6,6] x) => (uint8[1,4,6,6] y) {
        y = QLinearConv<pads=[1,1,1,1]>(x, xs, xz, w, ws, wz, ys, yz, b) }"""
    values = {
        **{"xs": np.float32(0.02), "xz": np.uint8(7), "w": signed_weights(4, 3, 3, 3)},
        **{"ws": np.array([0.1, 0.2, 0.3, 0.4], np.float32), "wz": np.zeros(4, np.int8)},
        **{"ys": np.float32(2.3), "yz": np.uint8(120), "b": np.array([9, -8, 70, 0], np.int32)},
    }
    check(parse(text, **values))


def test_quantised_matmul():
    text = """g (uint8[3,8] x) => (uint8[3,5] y) {
        y = QLinearMatMul(x, xs, xz, w, ws, wz, ys, yz) }"""
    values = {
        **{"xs": np.float32(0.02), "xz": np.uint8(7), "w": integers("uint8", 8, 5)},
        **{"ws": np.float32(0.1), "wz": np.uint8(5), "ys": np.float32(3.1), "yz": np.uint8(120)},
    }
    check(parse(text, **values))


def test_sequences_leave_no_operator():
    text = """g (float[4,6] x) => (float[4,6] y, int64 n) {
        s = SplitToSequence<axis=1>(x, parts) n = SequenceLength(s)
        a = SequenceAt(s, last) b = SequenceAt(s, first)
        t = SequenceConstruct(a) u = SequenceInsert(t, b)
        y = ConcatFromSequence<axis=1>(u) }"""
    values = {"parts": np.array([2, 4]), "last": np.int64(-1), "first": np.int64(0)}
    assert counts(check(parse(text, **values))) == {"Split": 1, "Concat": 1}
