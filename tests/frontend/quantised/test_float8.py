"""Contractions of dequantised float8s, as such and by floats."""

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings

import compiler
from compiler.artifact.module import Module
from compiler.frontend.export import export_model
from compiler.frontend.interpreter import interpret
from compiler.ir.dataflow import OperatorOp
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import parse
from tests.frontend.quantised.float8_models import KINDS, gemm, layers, matmul, numbers
from tests.frontend.quantised.models import START, quantised_models
from tests.kernels.gpu.emulator import COMPILER
from tests.kernels.test_float8 import largest
from tests.lowered import import_lowered

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

PAIRS = [*product(KINDS, KINDS)]


def onnxruntime_result(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The first result of onnxruntime without optimisations, as floats, which it can return."""
    model, name = onnx.ModelProto.FromString(model.SerializeToString()), model.graph.output[0].name
    model.graph.node.append(onnx.helper.make_node("Cast", [name], ["as_float"], to=1))
    model.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="as_float"))
    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=providers)
    return session.run(None, inputs)[0]


def input_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Random numbers that a scale of 0.02 quantises to all of float8."""
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return {"x": np.random.default_rng(1).standard_normal(shape, "f4") * 2}


def types_of(model: onnx.ModelProto, way: Contraction) -> Counter[str]:
    """The operators of an imported model by type."""
    module = import_lowered(model, contraction=way).module
    return Counter(op.type_name for op in module.walk() if isinstance(op, OperatorOp))


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_only_tiles_of_float8_contract_float8(left: str, right: str):
    for way in (Contraction.BYTES, Contraction.TILES, Contraction.FLOATS):
        assert types_of(layers(left, right), way)["Conv"] == 2
    for model, type in ((layers, "ConvFloat8"), (matmul, "MatMulFloat8"), (gemm, "MatMulFloat8")):
        types = types_of(model(left, right), Contraction.FLOAT8_TILES)
        assert types[type] == (2 if model is layers else 1)
        assert types["Conv"] == types["MatMul"] == types["Gemm"] == 0


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_an_export_is_what_onnxruntime_computes(left: str, right: str):
    for model in (layers(left, right), matmul(left, right)):
        found = import_lowered(model, contraction=Contraction.FLOAT8_TILES)
        exported = export_model(found.module, found.weights)
        checker: Any = onnx.checker
        checker.check_model(exported, full_check=True)
        x = input_of(model)
        (expected,) = interpret(found.module, found.weights, x).values()
        np.testing.assert_allclose(onnxruntime_result(exported, x), expected, 1e-5, 1e-5)
        np.testing.assert_allclose(onnxruntime_result(model, x), expected, 1e-5, 1e-5)


CODED = """g (float[4,5] x) => (float[4,3] y) {
 a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
 v = DequantizeLinear(w, s, wz)  y = MatMul(b, v) }"""


@pytest.mark.parametrize(("left", "weights"), [("float8_e4m3fn", "int8"), ("uint8", "float8_e5m2")])
def test_bytes_of_two_sorts_are_floats(left: str, weights: str):
    sorts = {**KINDS, "int8": np.int8, "uint8": np.uint8}
    zero, w = np.zeros((), sorts[left]), np.ones((5, 3)).astype(sorts[weights])
    model = parse(CODED, 21, s=np.float32(0.5), z=zero, w=w, wz=np.zeros((), sorts[weights]))
    types = types_of(model, Contraction.FLOAT8_TILES)
    assert types["MatMul"] == 1
    assert types["MatMulFloat8"] == types["MatMulInteger"] == 0


AGAIN = """g ({kind}[4,5] q) => ({kind}[5,4] r) {{
 a = DequantizeLinear(q, s, z)  b = Transpose(a)  r = QuantizeLinear(b, s, z) }}"""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_quantised_again_is_the_float8s_unless_these_have_infinities(kind: str):
    text = AGAIN.format(kind=kind.replace("_", ""))
    model = parse(text, 21, s=np.float32(0.3), z=np.zeros((), KINDS[kind]))
    q = np.arange(20, dtype=np.uint8).reshape(4, 5) * 13
    q[0, 0] = 0x7C
    types = types_of(model, Contraction.BYTES)
    assert (types["Mul"] > 0) == (kind == "float8_e5m2")
    q = q.view(KINDS[kind])
    (found,) = compiler.compile(model).run({"q": q}).values()
    most = largest(kind)
    expected = np.clip(q.T.astype("f4"), -most, most)
    np.testing.assert_array_equal(found.astype("f4"), expected)


def tensors(module: Module) -> Counter[str]:
    """The float8s that tasks write or read, by dtype."""
    views = [view for task in module.schedule.tasks for view in (*task.reads, *task.writes)]
    return Counter(view.dtype for view in views if view.nbytes and "float8" in view.dtype)


@needs_compiler
@pytest.mark.parametrize(("left", "right"), PAIRS[1:3])
def test_layers_on_an_emulated_gpu(left: str, right: str, tmp_path: Path):
    for make in (layers, matmul, gemm):
        model = make(left, right)
        module = compiler.compile(model, target="emu:sm_89", precision="fp32", quantised="bytes")
        assert any("Float8" in task.kernel for task in module.schedule.tasks)
        assert len(tensors(module)) >= 1
        x = input_of(model)
        (found,) = module.run(x).values()
        expected = onnxruntime_result(model, x)
        np.testing.assert_allclose(found.astype("f4"), expected, 2e-5, 1e-5)
        module.save(tmp_path / make.__name__)
        (again,) = compiler.load(tmp_path / make.__name__).run(x).values()
        np.testing.assert_array_equal(again.astype("f4"), found.astype("f4"))


@pytest.mark.parametrize("target", ["cpu", pytest.param("emu:sm_80", marks=needs_compiler)])
def test_other_targets_contract_floats(target: str):
    model = layers("float8_e4m3fn", "float8_e5m2")
    precision = None if target == "cpu" else "fp32"
    module = compiler.compile(model, target=target, precision=precision)
    assert not any("Float8" in task.kernel for task in module.schedule.tasks)
    x = input_of(model)
    (found,) = module.run(x).values()
    np.testing.assert_allclose(found, onnxruntime_result(model, x), 1e-5, 1e-5)


EXTREMES = """g ({left}[16,32] a) => (float[16,32] y) {{
 b = DequantizeLinear(a, s)  v = DequantizeLinear(w, s)  y = MatMul(b, v) }}"""


@needs_compiler
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_sums_with_nan_infinities_and_the_largest_numbers(left: str, right: str):
    a, w = numbers(left, 16, 32), np.array(numbers(right, 32, 32))
    a.view(np.uint8)[:6, 3] = [0x7F, 0xFF, 0x7C, 0xFC, 0x7E, 0x01]
    w.view(np.uint8)[5, :4] = [0x7B, 0xFB, 0x7E, 0x81]
    text = EXTREMES.format(left=left.replace("_", ""))
    model = parse(text, 21, w=w, s=np.float32(1))
    module = compiler.compile(model, target="emu", precision="fp32", quantised="bytes")
    assert any("Float8" in task.kernel for task in module.schedule.tasks)
    (found,) = module.run({"a": a}).values()
    with np.errstate(invalid="ignore"):
        expected = a.astype("f8") @ w.astype("f8")
        sizes = np.abs(a.astype("f8")) @ np.abs(w.astype("f8"))
    assert np.isnan(expected).any()
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    errors = np.abs(found[finite] - expected[finite])
    assert (errors <= 2.0**-20 * sizes[finite]).all()


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models(tuple(KINDS)))
def test_any_quantised_model(model: onnx.ModelProto):
    x = {"x": np.random.default_rng(1).standard_normal(START, "f4")}
    expected = onnxruntime_result(model, x)
    for way in (Contraction.BYTES, Contraction.FLOATS, Contraction.FLOAT8_TILES):
        found = import_lowered(model, contraction=way)
        (result,) = interpret(found.module, found.weights, x).values()
        assert is_close(result, expected)
    (result,) = compiler.compile(model).run(x).values()
    assert is_close(result, expected)


@needs_compiler
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models(tuple(KINDS)))
def test_any_quantised_model_on_an_emulated_gpu(model: onnx.ModelProto):
    x = {"x": np.random.default_rng(1).standard_normal(START, "f4")}
    (found,) = compiler.compile(model, target="emu", precision="fp32").run(x).values()
    assert is_close(found, onnxruntime_result(model, x))


def is_close(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether results agree but for few numbers next to a tie, rounded the other way."""
    error = np.linalg.norm((found - expected).astype("f8"))
    return bool(error <= 0.02 * np.linalg.norm(expected.astype("f8")) + 1e-6)


def test_a_quantisation_need_not_saturate():
    text = """g (float[6] x) => (float[6] y) {
     a = QuantizeLinear<saturate=0>(x, s, z)  y = DequantizeLinear(a, s, z) }"""
    x = {"x": np.array([1, 1e6, -1e6, np.inf, np.nan, 448], "f4")}
    for kind in KINDS.values():
        model = parse(text, 21, s=np.float32(1), z=np.zeros((), kind))
        expected = x["x"].astype(kind).astype("f4")
        (found,) = compiler.compile(model).run(x).values()
        np.testing.assert_array_equal(found, expected)
        (found,) = compiler.compile(model, quantised="floats").run(x).values()
        np.testing.assert_array_equal(found, expected)
