"""Models of layers whose tensors are quantised to float8, and their float64 results."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx

from tests.frontend.checks import parse

KINDS = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}

LAYERS = """g (float[1,32,6,5] x) => (float[1,32,6,5] y) {
 a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
 v = DequantizeLinear<axis=0>(w, ws)  c = Conv<pads=[1,1,1,1]>(b, v, bias)
 r = Relu(c)  d = QuantizeLinear(r, t, z)  e = DequantizeLinear(d, t, z)
 p = DequantizeLinear<axis=0>(q, ps)  f = Conv(e, p)  y = Add(f, b) }"""

MATMUL = """g (float[40,64] x) => (float[40,48] y) {
 a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
 v = DequantizeLinear<axis=1>(w, ws)  y = MatMul(b, v) }"""

GEMM = """g (float[40,64] x) => (float8[40,48] y) {
 a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
 v = DequantizeLinear<axis=0>(w, ws)  c = Gemm<transB=1, alpha=0.5, beta=2.0>(b, v, bias)
 y = QuantizeLinear(c, t, z) }"""


def numbers(kind: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Random float8s of all sizes."""
    random = np.random.default_rng([seed, *shape])
    return (random.standard_normal(shape) * 2.0 ** random.integers(-6, 6, shape)).astype(
        KINDS[kind]
    )


def layers(image: str, weights: str) -> onnx.ModelProto:
    """Two convolutions, the second with a residual."""
    random = np.random.default_rng(3)
    constants: dict[str, Any] = {
        "s": np.float32(0.02),
        "t": np.float32(0.3),
        "z": np.zeros((), KINDS[image]),
        "w": numbers(weights, 48, 32, 3, 3),
        "ws": random.uniform(0.001, 0.01, 48).astype("f4"),
        "bias": random.standard_normal(48, "f4"),
        "q": numbers(weights, 32, 48, 1, 1),
        "ps": random.uniform(0.001, 0.01, 32).astype("f4"),
    }
    return parse(LAYERS, 21, **constants)


def matmul(left: str, right: str) -> onnx.ModelProto:
    """A matmul by weights with a scale for each column."""
    scales = np.random.default_rng(4).uniform(0.001, 0.01, 48).astype("f4")
    zero = np.zeros((), KINDS[left])
    return parse(MATMUL, 21, s=np.float32(0.02), z=zero, w=numbers(right, 64, 48), ws=scales)


def gemm(left: str, right: str) -> onnx.ModelProto:
    """A Gemm by transposed weights, whose result is quantised."""
    random, name = np.random.default_rng(4), left.replace("_", "")
    return parse(
        GEMM.replace("float8[", f"{name}["),
        21,
        s=np.float32(0.02),
        t=np.float32(0.05),
        z=np.zeros((), KINDS[left]),
        w=numbers(right, 48, 64),
        ws=random.uniform(0.001, 0.01, 48).astype("f4"),
        bias=random.standard_normal(48, "f4"),
    )
