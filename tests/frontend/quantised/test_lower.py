"""A model is imported once, and a copy of it is lowered in each way."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings

from compiler.driver.settings import Settings
from compiler.driver.variants import variants
from compiler.frontend.importing import Imported, import_model
from compiler.ir.dataflow import OperatorOp
from compiler.passes.pipeline import DEFAULT_PIPELINE
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import parse
from tests.frontend.quantised.models import quantised_models
from tests.lowered import lowered

RANDOM = np.random.default_rng(3)


def text_of(imported: Imported) -> tuple[str, Mapping[str, bytes]]:
    """Everything that is imported, to be compared."""
    weights = {name: array.tobytes() for name, array in imported.weights.items()}
    return str(imported.module), weights


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models(attends=True))
def test_a_model_that_is_lowered_in_every_way_stays_as_it_is(model: onnx.ModelProto):
    imported = import_model(model)
    before = text_of(imported)
    first = {way: text_of(lowered(imported, way)) for way in Contraction}
    assert text_of(imported) == before
    for way in reversed(Contraction):
        assert text_of(lowered(imported, way)) == first[way]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models(attends=True))
def test_a_lowered_model_is_not_lowered_again(model: onnx.ModelProto):
    for way in (Contraction.BYTES, Contraction.TILES, Contraction.UNROUNDED):
        once = lowered(import_model(model), way)
        assert text_of(lowered(once, Contraction.BYTES)) == text_of(once)


def test_quantities_of_a_run_and_control_flow_are_lowered():
    text = """g (float[4,16] x, float[4,16] u, bool c) => (float[4,3] y, float[4,16] r) {
        a, s, z = DynamicQuantizeLinear(x)  b = DequantizeLinear(a, s, z)
        d = Transpose<perm=[1,0]>(b)  e = QuantizeLinear(d, s, z)  f = MatMulInteger(a, w, z)
        h = Cast<to=1>(f)  y = Mul(h, s)
        r = If(c)<then_branch = t () => (float[4,16] p) { p = Add(u, u) },
                  else_branch = o () => (float[4,16] q) {
                      i = QuantizeLinear(u, k)  q = DequantizeLinear(i, k) }> }"""
    weights = {"w": RANDOM.integers(-9, 9, (16, 3)).astype("i1"), "k": np.float32(0.02)}
    imported = import_model(parse(text, 21, **weights), regions=True)
    assert "QuantizeLinear" in str(imported.module)
    for way in Contraction:
        module = lowered(imported, way).module
        module.verify()
        assert "dataflow.if" in str(module)
        assert not {"QuantizeLinear", "DequantizeLinear"} & {
            op.type_name for op in module.walk() if isinstance(op, OperatorOp)
        }


DENSE = """g (float[4,32] x) => (float[4,8] y) {
    a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  c = DequantizeLinear(v, s)
    y = MatMul(b, c) }"""
IMAGE = DENSE.replace("4,32", "1,3,8,8").replace("4,8", "1,4,8,8").replace("MatMul", "Conv")


@pytest.mark.parametrize(
    ("target", "dense", "image"),
    [
        ("cuda:sm_90:tf32", ["float8-tiles", "floats"], ["floats"]),
        ("cuda:sm_80:fp16", ["operands", "unrounded"], ["unrounded"]),
        ("hip:gfx90a:fp16", ["floats"], ["floats"]),
        ("cpu", ["all"], ["all"]),
    ],
)
def test_the_ways_to_compare_are_those_with_kernels(
    target: str, dense: list[str], image: list[str]
):
    code = {"s": np.float32(0.02), "z": np.uint8(120)}
    for text, shape, ways in ((DENSE, (32, 8), dense), (IMAGE, (4, 3, 1, 1), image)):
        weights = RANDOM.integers(-127, 128, shape).astype("i1")
        imported = import_model(parse(text, 21, v=weights, **code))
        compared = variants(imported, Settings(target))
        assert [variant.contraction for variant in compared] == ways
    plain = import_model(parse("g (float[4] x) => (float[4] y) { y = Relu(x) }"))
    assert [variant.contraction for variant in variants(plain, Settings(target))] == [None]


def test_a_pipeline_that_names_a_way_has_that_one():
    weights = RANDOM.integers(-127, 128, (32, 8)).astype("i1")
    imported = import_model(parse(DENSE, 21, v=weights, s=np.float32(0.02), z=np.uint8(120)))
    for way, contraction in (("floats", Contraction.FLOATS), ("tiles", Contraction.TILES)):
        pipeline = DEFAULT_PIPELINE.replace("lower-quantised", f"lower-quantised{{way={way}}}")
        copy = Imported(imported.module.clone(), dict(imported.weights))
        compared = variants(copy, Settings("cuda:sm_90:tf32", pipeline))
        assert [variant.contraction for variant in compared] == [contraction]
