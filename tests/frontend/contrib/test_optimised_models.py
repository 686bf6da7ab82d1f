"""Whole models as onnxruntime's optimiser and its quantisation tools write them."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxruntime.quantization
import pytest

import compiler
from tests.frontend.checks import Arrays, parse, run
from tests.frontend.contrib.checks import imported_results, normal, whole

protobuf: Any = onnx
runtime: Any = onnxruntime
quantization: Any = onnxruntime.quantization
Writer = Callable[[onnx.ModelProto, Path], onnx.ModelProto]
Run = Callable[[onnx.ModelProto, Arrays], list[np.ndarray]]
LENGTH, HEADS, SIZE, WORDS = 8, 2, 8, 20
WIDTH = HEADS * SIZE


def encoder() -> onnx.ModelProto:
    """Embeddings and one layer of a BERT, of operators as exporters write them."""
    text = f"""
    main (int64[2,{LENGTH}] ids, float[2,1,1,{LENGTH}] hidden) => (float[2,{LENGTH},{WIDTH}] y) {{
        words = Gather (table, ids)
        embedded = Add (words, positions)
        x = LayerNormalization <axis = -1, epsilon = 1e-5> (embedded, scale, shift)
        q0 = MatMul (x, wq)  q1 = Add (q0, bq)  q2 = Reshape (q1, split)
        q = Transpose <perm = [0, 2, 1, 3]> (q2)
        k0 = MatMul (x, wk)  k1 = Add (k0, bk)  k2 = Reshape (k1, split)
        k = Transpose <perm = [0, 2, 3, 1]> (k2)
        v0 = MatMul (x, wv)  v1 = Add (v0, bv)  v2 = Reshape (v1, split)
        v = Transpose <perm = [0, 2, 1, 3]> (v2)
        dots = MatMul (q, k)  scaled = Div (dots, root)
        masked = Add (scaled, hidden)
        weights = Softmax <axis = -1> (masked)
        context = MatMul (weights, v)
        rows = Transpose <perm = [0, 2, 1, 3]> (context)
        flat = Reshape (rows, whole)
        o0 = MatMul (flat, wo)  o = Add (o0, bo)
        sum = Add (o, x)
        normed = LayerNormalization <axis = -1, epsilon = 1e-5> (sum, scale, shift)
        f0 = MatMul (normed, w1)  f1 = Add (f0, b1)
        f2 = Div (f1, two)  f3 = Erf (f2)  f4 = Add (f3, one)
        f5 = Mul (f1, f4)  f6 = Mul (f5, half)
        f7 = MatMul (f6, w2)  f = Add (f7, b2)
        last = Add (f, normed)
        y = LayerNormalization <axis = -1, epsilon = 1e-5> (last, scale, shift)
    }}"""
    weights: dict[str, Any] = {f"w{name}": normal(WIDTH, WIDTH) * 0.3 for name in "qkvo"}
    weights |= {f"b{name}": normal(WIDTH) for name in "qkvo2"}
    weights |= {"w1": normal(WIDTH, 32) * 0.3, "b1": normal(32), "w2": normal(32, WIDTH) * 0.3}
    weights |= {"table": normal(WORDS, WIDTH), "positions": normal(LENGTH, WIDTH)}
    weights |= {"scale": normal(WIDTH), "shift": normal(WIDTH)}
    weights |= {"split": np.array([0, 0, HEADS, SIZE]), "whole": np.array([0, 0, WIDTH])}
    numbers = {"root": SIZE**0.5, "two": 2**0.5, "one": 1, "half": 0.5}
    return parse(text, 17, **weights, **{name: np.float32(n) for name, n in numbers.items()})


def _optimised(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """As onnxruntime's session saves it."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    runtime.InferenceSession(model.SerializeToString(), options, providers)
    return protobuf.load(folder / "optimised.onnx")


def _dynamically_quantised(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """As quantize_dynamic writes it and onnxruntime's session fuses it."""
    protobuf.save(model, folder / "model.onnx")
    quantization.quantize_dynamic(folder / "model.onnx", folder / "quantised.onnx")
    return _optimised(protobuf.load(folder / "quantised.onnx"), folder)


def _statically_quantised(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """As quantize_static writes it, in QLinear operators."""

    class Reader(quantization.CalibrationDataReader):
        """Two samples."""

        def __init__(self):
            self.samples = iter([inputs_of(model) for _ in range(2)])

        def get_next(self):
            """One sample more."""
            return next(self.samples, None)

    protobuf.save(model, folder / "model.onnx")
    quantised = folder / "quantised.onnx"
    form = quantization.QuantFormat.QOperator
    quantization.quantize_static(folder / "model.onnx", quantised, Reader(), quant_format=form)
    return protobuf.load(quantised)


def inputs_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Fresh random inputs; integers are words."""
    arrays: dict[str, np.ndarray] = {}
    for info in model.graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        is_float = info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        arrays[info.name] = normal(*shape) if is_float else whole(0, WORDS, *shape, dtype="int64")
    return arrays


def lstm() -> onnx.ModelProto:
    """An LSTM and a MatMul."""
    text = """
    main (float[2,2,8] x) => (float[2,1,2,3] y) {
        s, h, c = LSTM <hidden_size = 8> (x, w, r, b)
        y = MatMul (s, m)
    }"""
    shapes = {"w": (1, 32, 8), "r": (1, 32, 8), "b": (1, 64), "m": (8, 3)}
    return parse(text, 17, **{name: normal(*shape) * 0.5 for name, shape in shapes.items()})


def network() -> onnx.ModelProto:
    """Two convolutions with a residual, a concatenation, pools and a classifier."""
    text = """
    main (float[1,4,8,8] x) => (float[1,5] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
        b = LeakyRelu <alpha = 0.1> (a)
        c = Conv <pads = [1, 1, 1, 1]> (b, w2, b1)
        d = Sigmoid (c)
        e = Add (b, d)
        f = Mul (e, d)
        g = Concat <axis = 1> (f, e)
        h = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (g)
        i = GlobalAveragePool (h)
        j = Flatten (i)
        k = Gemm (j, w3, b3)
        y = Softmax <axis = -1> (k)
    }"""
    shapes = {"w1": (8, 4, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "w3": (16, 5), "b3": (5,)}
    return parse(text, 17, **{name: normal(*shape) * 0.3 for name, shape in shapes.items()})


def compared(model: onnx.ModelProto, tolerance: float, runs: Run) -> Counter[str]:
    """Compare a model's results with onnxruntime's; its operators outside ONNX's domain."""
    inputs = inputs_of(model)
    for actual, wanted in zip(runs(model, inputs), run(model, inputs), strict=True):
        assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
        scale = float(np.abs(wanted).max())
        np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance * scale)
    return Counter(n.op_type for n in model.graph.node if n.domain == "com.microsoft")


def _compiled(model: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    """The results of our kernels."""
    return [*compiler.compile(model, target="cpu", budget=0).run(inputs).values()]


def _imported(model: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    """The results of the imported graph under onnxruntime, which costs no compilation."""
    return imported_results(model, inputs)[1]


@pytest.mark.parametrize(
    ("build", "write", "tolerance", "runs", "operators"),
    [
        (encoder, _optimised, 1e-4, _compiled, "SkipLayerNormalization FusedMatMul Gelu"),
        (
            encoder,
            _dynamically_quantised,
            2e-2,
            _imported,
            "DynamicQuantizeMatMul MatMulIntegerToFloat",
        ),
        (lstm, _dynamically_quantised, 2e-2, _compiled, "DynamicQuantizeLSTM"),
        (
            network,
            _statically_quantised,
            2e-2,
            _imported,
            "QLinearAdd QLinearMul QLinearConcat QLinearLeakyRelu QLinearSigmoid QGemm"
            " QLinearAveragePool QLinearGlobalAveragePool QLinearSoftmax",
        ),
    ],
)
def test_models_that_onnxruntime_wrote(
    build: Callable[[], onnx.ModelProto],
    write: Writer,
    tolerance: float,
    runs: Run,
    operators: str,
    tmp_path: Path,
):
    found = compared(write(build(), tmp_path), tolerance, runs)
    assert set(operators.split()) <= set(found)
