"""Weights with any zero point: sums are onnxruntime's, and no kernel adds up rows alone."""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import compiler
from tests.frontend.checks import parse, run

SUMS = """g (float[{rows},{depth}] x) => (int32[{rows},{columns}] y) {{
 r = Relu(x)  a, s, z = DynamicQuantizeLinear(r)  y = MatMulInteger(a, w, z, v) }}"""


def check(target: str, sizes: tuple[int, int, int], weights: np.ndarray, zero: np.ndarray) -> None:
    """Compare int32 sums with onnxruntime's."""
    rows, depth, columns = sizes
    text = SUMS.format(rows=rows, depth=depth, columns=columns)
    model = parse(text, 21, w=weights, v=zero)
    module = compiler.compile(model, target=target, quantised="bytes")
    x = np.random.default_rng(rows).standard_normal((rows, depth), "f4") * 3
    (expected,), (found,) = run(model, {"x": x}), module.run({"x": x}).values()
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=1, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["emu:sm_90:fp32", "cpu"]),
    st.tuples(st.integers(1, 40), st.integers(1, 90), st.integers(1, 40)),
    st.sampled_from(["uint8", "int8"]),
    st.booleans(),
    st.integers(0, 99),
)
@example("emu:sm_90:fp32", (33, 80, 24), "uint8", False, 117)
@example("cpu", (9, 70, 33), "uint8", False, 1)
def test_any_zero_point(
    target: str, sizes: tuple[int, int, int], dtype: str, by_column: bool, seed: int
):
    random, limits = np.random.default_rng(seed), np.iinfo(dtype)
    weights = random.integers(limits.min, limits.max + 1, sizes[1:]).astype(dtype)
    shape = sizes[2:] if by_column and sizes[0] > 1 else ()
    zero = np.asarray(random.integers(limits.min, limits.max + 1, shape)).astype(dtype)
    check(target, sizes, weights, zero)


@pytest.mark.parametrize(("zero", "most"), [(117, 255), (128, 255), (64, 127)])
def test_a_gpu_has_as_many_kernels_as_without(zero: int, most: int):
    weights = np.random.default_rng(0).integers(0, most + 1, (96, 64)).astype("u1")
    text = SUMS.format(rows=64, depth=96, columns=64)
    model = parse(text, 21, w=weights, v=np.uint8(zero))
    module = compiler.compile(model, target="emu:sm_90:fp16", quantised="bytes")
    assert len(module.schedule.tasks) == 3


STATIC = """g (float[12,96] x) => (float[12,64] y) {
 a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
 v = DequantizeLinear(w, ws, wz)  y = MatMul(b, v) }"""


@pytest.mark.parametrize("zero", [117, 128])
def test_dequantised_weights_are_multiplied_as_bytes(zero: int):
    weights = np.random.default_rng(0).integers(0, 256, (96, 64)).astype("u1")
    scales = {"s": np.float32(0.03), "z": np.uint8(101), "ws": np.float32(0.5)}
    model = parse(STATIC, 21, w=weights, wz=np.uint8(zero), **scales)
    module = compiler.compile(model, target="emu:sm_90:fp32", quantised="bytes")
    assert any("MatMulInteger" in task.kernel for task in module.schedule.tasks)
    x = np.random.default_rng(1).standard_normal((12, 96), "f4")
    (expected,), (found,) = run(model, {"x": x}), module.run({"x": x}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
