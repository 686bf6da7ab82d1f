"""A small network that uses every template of kernels, as a whole on the emulator."""

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper, parser

import compiler
from compiler.backends.emu.device import device
from compiler.tools.reference import run_onnxruntime
from tests.kernels.gpu.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
small ({T}[1,8,4,4] x) => ({T}[1,16,16] y)
<int64[3] rows = {{1, 16, 16}}, int64[4] heads = {{1, 16, 2, 8}}>
{{
    c = Conv<pads = [1,1,1,1]> (x, w_conv)
    r = Relu (c)
    d = Conv<pads = [1,1,1,1], group = 16> (r, w_deep)
    image = Add (d, c)
    long = Reshape (image, rows)
    tokens = Transpose<perm = [0,2,1]> (long)
    n = LayerNormalization<axis = -1> (tokens, scale, shift)
    q = MatMul (n, w_q)
    k = MatMul (n, w_k)
    v = MatMul (n, w_v)
    q4 = Reshape (q, heads)
    k4 = Reshape (k, heads)
    v4 = Reshape (v, heads)
    qt = Transpose<perm = [0,2,1,3]> (q4)
    kt = Transpose<perm = [0,2,3,1]> (k4)
    vt = Transpose<perm = [0,2,1,3]> (v4)
    s = MatMul (qt, kt)
    p = Softmax<axis = -1> (s)
    o = MatMul (p, vt)
    ot = Transpose<perm = [0,2,1,3]> (o)
    a = Reshape (ot, rows)
    m = MatMul (a, w_o)
    y = Add (m, tokens)
}}
"""
SHAPES = {
    "w_conv": (16, 8, 3, 3), "w_deep": (16, 1, 3, 3), "scale": (16,), "shift": (16,),
    "w_q": (16, 16), "w_k": (16, 16), "w_v": (16, 16), "w_o": (16, 16),
}  # fmt: skip
TEMPLATES = ("attend<", "gemm<", "convolve_groups<", "normalize<")
BOUNDS = {"tf32": 3e-3, "fp16": 5e-3}


def network(kind: str) -> ModelProto:
    """Convolutions, then an attention with its projections, in one type."""
    model, chance = parser.parse_model(MODEL.format(T=kind)), np.random.default_rng(0)
    dtype = {"float": np.float32, "float16": np.float16}[kind]
    for name, shape in SHAPES.items():
        values = chance.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)
        model.graph.initializer.append(numpy_helper.from_array(values.astype(dtype), name))
    return model


def error(result: NDArray[np.floating], expected: NDArray[np.floating]) -> float:
    """The relative error in the Euclidean norm."""
    expected = expected.astype("float64")
    return float(np.linalg.norm(result - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("precision", BOUNDS)
def test_every_template_takes_part(precision: str):
    model = network("float")
    inputs = {"x": np.random.default_rng(1).standard_normal((1, 8, 4, 4), np.float32)}
    (expected,) = run_onnxruntime(model, inputs).values()
    module = compiler.compile(model, target="emu", precision=precision)
    text = "".join(kernel.source for kernel in module.kernels.values())
    assert [template for template in TEMPLATES if template not in text] == []
    assert any(launch.indirect for kernel in module.kernels.values() for launch in kernel.launches)
    for seed in range(5):
        device().configure(seed, 32 if seed % 2 else 64)
        assert error(module.run(inputs)["y"], expected) < BOUNDS[precision]
