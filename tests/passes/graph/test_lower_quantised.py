"""The pass that lowers quantised operators: what it computes, and where it stands."""

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings

import compiler
from compiler.errors import PipelineError
from compiler.frontend.export import export_model
from compiler.frontend.importing import Imported, import_model
from compiler.frontend.interpreter import interpret
from compiler.ir.context import parse_module
from compiler.ir.dataflow import OperatorOp
from compiler.passes.base import PassContext
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, without_pass
from compiler.passes.runner import Runner
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import assert_close, random_inputs, run
from tests.frontend.checks import parse as parse_onnx
from tests.frontend.quantised.models import quantised_models
from tests.lowered import lowered

RANDOM = np.random.default_rng(11)
ROUNDING = [way for way in Contraction if way.rounds]

DENSE = """g (float[4,32] x) => (float[4,8] y) {
    a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  c = DequantizeLinear(v, s)
    y = MatMul(b, c) }"""
HALF = "g (float[4,32] x) => (float[4,8] y) { c = DequantizeLinear(v, s)  y = MatMul(x, c) }"


def dense() -> onnx.ModelProto:
    """A layer between QDQ pairs."""
    weights = RANDOM.integers(-127, 128, (32, 8)).astype("i1")
    return parse_onnx(DENSE, 21, v=weights, s=np.float32(0.02), z=np.uint8(120))


def types_of(imported: Imported) -> set[str]:
    """The types of the operators."""
    return {op.type_name for op in imported.module.walk() if isinstance(op, OperatorOp)}


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models())
def test_results_stay_but_for_steps_of_the_last_layer(model: onnx.ModelProto):
    """Numbers halfway between two integers may become either."""
    imported = import_model(model)
    inputs = random_inputs(imported)
    before = interpret(imported.module, imported.weights, inputs)
    for way in ROUNDING:
        result = lowered(imported, way)
        assert not {"QuantizeLinear", "DequantizeLinear"} & types_of(result)
        after = interpret(result.module, result.weights, inputs)
        for name, array in before.items():
            near = np.isclose(after[name].astype("f8"), array.astype("f8"), rtol=0.05, atol=0.1)
            assert near.mean() > 0.8, (way, name)


def test_weights_of_the_store_are_those_of_the_graph():
    imported = import_model(dense())
    result = lowered(imported)
    result.module.verify()
    assert result.weights.keys() == {"v"}
    floats = lowered(imported, Contraction.FLOATS)
    np.testing.assert_array_equal(
        next(iter(floats.weights.values())), imported.weights["v"] * np.float32(0.02)
    )


def test_a_dump_before_the_pass_and_one_after_it(tmp_path: Path):
    compiler.compile(dense(), target="cpu", cache=False, dump_ir=tmp_path)
    before, after = (
        (tmp_path / name).read_text() for name in ("00-import.mlir", "01-lower-quantised.mlir")
    )
    assert '"QuantizeLinear"' in before
    assert "contraction" not in before
    assert '"QuantizeLinear"' not in after
    assert '"MatMulInteger"' in after
    module = parse_module(after)
    text = str(module)
    Runner().run(module, parse("lower-quantised"))  # needs no weights: it has run
    assert str(module) == text


def test_a_dump_before_the_pass_is_a_model():
    text = """g (float[4,16] x) => (float[4,3] y) {
        a, s, z = DynamicQuantizeLinear(x)  f = MatMulInteger(a, w, z)  h = Cast<to=1>(f)
        y = Mul(h, s) }"""
    model = parse_onnx(text, 21, w=RANDOM.integers(-9, 9, (16, 3)).astype("i1"))
    imported = import_model(model)
    assert "of_range" in str(imported.module)
    again = export_model(imported.module, imported.weights)
    inputs = random_inputs(imported)
    assert_close(run(again, inputs), run(model, inputs))


def test_other_models_stay_as_they_are():
    module = import_model(parse_onnx("g (float[4] x) => (float[4] y) { y = Relu(x) }")).module
    text = str(module)
    Runner(context=PassContext({})).run(module, parse("lower-quantised{way=all}"))
    assert str(module) == text


def test_a_pipeline_without_the_pass_computes_what_is_written():
    model, x = dense(), RANDOM.standard_normal((4, 32)).astype("f4")
    pipeline = without_pass(DEFAULT_PIPELINE, "lower-quantised")
    plain = compiler.compile(model, target="cpu", cache=False, pipeline=pipeline)
    assert not any("Integer" in name for name in plain.kernels)
    usual = compiler.compile(model, target="cpu", cache=False)
    np.testing.assert_allclose(plain.run({"x": x})["y"], usual.run({"x": x})["y"], atol=1e-4)


def test_constants_of_four_bits_need_the_pass():
    integers = RANDOM.integers(-8, 8, (32, 8)).astype(ml_dtypes.int4)
    model = parse_onnx(HALF, 21, v=integers, s=np.float32(0.02))
    pipeline = without_pass(DEFAULT_PIPELINE, "lower-quantised")
    with pytest.raises(PipelineError, match="begin the pipeline with lower-quantised"):
        compiler.compile(model, target="cpu", cache=False, pipeline=pipeline)


def test_it_comes_before_groups():
    imported = import_model(dense())
    with pytest.raises(PipelineError, match="before fuse-operators"):
        Runner(context=PassContext(imported.weights)).run(
            imported.module, parse("fuse-operators,lower-quantised")
        )


def test_an_unknown_way_is_refused():
    with pytest.raises(PipelineError, match="way is one of target, all, tiles"):
        parse("lower-quantised{way=bits}")
