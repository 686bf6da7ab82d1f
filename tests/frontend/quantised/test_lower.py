"""A graph is imported once, and lowered in any way without being changed."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings

from compiler.driver.build import lowered_variants
from compiler.driver.settings import Settings
from compiler.frontend.importing import import_model
from compiler.frontend.importing.model import Imported, import_graph, lowered
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import parse
from tests.frontend.quantised.models import quantised_models

RANDOM = np.random.default_rng(3)


def text_of(imported: Imported) -> tuple[str, Mapping[str, bytes], Contraction | None]:
    """Everything that is imported, to be compared."""
    weights = {name: array.tobytes() for name, array in imported.weights.items()}
    return str(imported.module), weights, imported.contraction


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models(attends=True))
def test_a_graph_that_is_lowered_in_every_way_stays_as_it_is(model: onnx.ModelProto):
    graph = import_graph(model)
    first = {way: text_of(lowered(graph, way)) for way in Contraction}
    for way in reversed(Contraction):
        assert text_of(lowered(graph, way)) == first[way]
    for way in (Contraction.BYTES, Contraction.UNROUNDED):
        assert text_of(import_model(model, contraction=way)) == first[way]


def test_quantities_of_a_run_and_control_flow_are_copied():
    text = """g (float[4,16] x, float[4,16] u, bool c) => (float[4,3] y, float[4,16] r) {
        a, s, z = DynamicQuantizeLinear(x)  b = DequantizeLinear(a, s, z)
        d = Transpose<perm=[1,0]>(b)  e = QuantizeLinear(d, s, z)  f = MatMulInteger(a, w, z)
        h = Cast<to=1>(f)  y = Mul(h, s)
        r = If(c)<then_branch = t () => (float[4,16] p) { p = Add(u, u) },
                  else_branch = o () => (float[4,16] q) { q = Relu(u) }> }"""
    model = parse(text, 21, w=RANDOM.integers(-9, 9, (16, 3)).astype("i1"))
    graph = import_graph(model, regions=True)
    first = {way: text_of(lowered(graph, way)) for way in Contraction}
    assert "dataflow.if" in first[Contraction.BYTES][0]
    for way in reversed(Contraction):
        assert text_of(lowered(graph, way)) == first[way]


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
        graph = import_graph(parse(text, 21, v=weights, **code))
        variants = lowered_variants(graph, Settings(target))
        assert [variant.contraction for variant in variants] == ways
    plain = import_graph(parse("g (float[4] x) => (float[4] y) { y = Relu(x) }"))
    assert [variant.contraction for variant in lowered_variants(plain, Settings(target))] == [None]
