"""Quantised models on an emulated GPU, in bytes where its tiles take them."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings

import compiler
from compiler.frontend.interpreter import interpret
from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.passes.pipeline import parse as passes
from compiler.passes.runner import Runner
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import parse, run
from tests.frontend.quantised.models import START, quantised_models
from tests.lowered import import_lowered

RANDOM = np.random.default_rng(5)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models(attends=True))
def test_any_quantised_model(model: onnx.ModelProto):
    plain = import_lowered(model, contraction=Contraction.FLOATS)
    x = np.random.default_rng(1).standard_normal(START, "f4")
    (expected,) = interpret(plain.module, plain.weights, {"x": x}).values()
    (found,) = compiler.compile(model, target="emu", precision="fp32").run({"x": x}).values()
    layers = sum(node.op_type == "QuantizeLinear" for node in model.graph.node)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.11 if layers < 3 else 1.0)


LAYERS = """g (float[1,32,9,7] x) => (float[1,40,5,4] y) {
 a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
 v = DequantizeLinear<axis=0>(w, ws)  c = Conv<pads=[1,1,1,1], strides=[2,2]>(b, v, bias)
 r = Relu(c)  d = QuantizeLinear(r, t, o)  e = DequantizeLinear(d, t, o)
 p = DequantizeLinear<axis=0>(q, ps)  y = Conv(e, p) }"""


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("zero", [0, 117])
def test_images_in_blocks_of_bytes(precision: str, zero: int):
    model = parse(
        LAYERS,
        21,
        s=np.float32(0.03),
        z=np.uint8(zero),
        t=np.float32(0.4),
        o=np.uint8(0),
        w=RANDOM.integers(-127, 128, (48, 32, 3, 3)).astype("i1"),
        ws=np.full(48, 0.01, "f4"),
        bias=RANDOM.standard_normal(48, "f4"),
        q=RANDOM.integers(-127, 128, (40, 48, 1, 1)).astype("i1"),
        ps=np.full(40, 0.01, "f4"),
    )
    module = compiler.compile(model, target="emu", precision=precision)
    contractions = [task.kernel for task in module.schedule.tasks if "Integer" in task.kernel]
    assert len(contractions) == 2
    plain = import_lowered(model, contraction=Contraction.FLOATS)
    x = RANDOM.standard_normal((1, 32, 9, 7), "f4")
    (expected,) = interpret(plain.module, plain.weights, {"x": x}).values()
    (found,) = module.run({"x": x}).values()
    # One number rounded the other way is a step times the largest weight.
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=0.4 * 1.28)


FEED_FORWARD = """g (float[1,12,48] x) => (float[1,12,48] y) {
 a, s, z = DynamicQuantizeLinear(x)  p = MatMulInteger(a, v, z)  f = Cast<to=1>(p)
 m = Mul(s, vs)  g = Mul(f, m)  h = Add(g, b)  r = Relu(h)
 c, t, o = DynamicQuantizeLinear(r)  q = MatMulInteger(c, w, o)  k = Cast<to=1>(q)
 n = Mul(t, ws)  l = Mul(k, n)  y = Add(l, x) }"""


@pytest.mark.parametrize("how", ["bytes", "floats"])
def test_quantised_as_it_runs(how: str):
    weights = {
        "v": RANDOM.integers(-127, 128, (48, 96)).astype("i1"),
        "w": RANDOM.integers(-127, 128, (96, 48)).astype("i1"),
        "vs": np.float32(0.004),
        "ws": RANDOM.uniform(0.001, 0.002, 48).astype("f4"),
        "b": RANDOM.standard_normal(96, "f4"),
    }
    model = parse(FEED_FORWARD, 21, **weights)
    module = compiler.compile(model, target="emu:sm_90:fp16", quantised=how)
    kinds = [task.kernel.rpartition("_")[0] for task in module.schedule.tasks]
    assert len(kinds) == 4
    assert sum("ReduceMin" in kind for kind in kinds) == 2
    x = RANDOM.standard_normal((1, 12, 48), "f4")
    (expected,), (found,) = run(model, {"x": x}), module.run({"x": x}).values()
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error < 3e-3  # h is stored in 16 bits, so that some of its integers differ by one


def test_ranges_of_any_parts_pass_the_check():
    text = """g (float[30,60] x) => (uint8[30,60] q, float s) { h = Tanh(x)  r = Neg(h)
     q, s, z = DynamicQuantizeLinear(r) }"""
    module = compiler.compile(parse(text, 21), target="emu:sm_90:fp32", check=True)
    assert any("PartialRanges" in task.kernel for task in module.schedule.tasks)
    module.run({"x": RANDOM.standard_normal((30, 60), "f4")})


@pytest.mark.parametrize("how", ["bytes", "floats"])
def test_nothing_to_quantise(how: str):
    weights = {"w": RANDOM.integers(-127, 128, (48, 16)).astype("i1"), "ws": np.float32(0.1)}
    text = """g (float[6,48] x) => (float[6,16] y) { q, s, z = DynamicQuantizeLinear(x)
     p = MatMulInteger(q, w, z)  f = Cast<to=1>(p)  m = Mul(s, ws)  y = Mul(f, m) }"""
    module = compiler.compile(parse(text, 21, **weights), target="emu:sm_90:fp16", quantised=how)
    (found,) = module.run({"x": np.zeros((6, 48), "f4")}).values()
    np.testing.assert_array_equal(found, np.zeros((6, 16), "f4"))


def test_layers_that_differ_by_their_scales_share_kernels():
    square = FEED_FORWARD.replace("48", "12").replace("h = Add(g, b)  ", "").replace("(h)", "(g)")
    weights = {name: RANDOM.integers(-127, 128, (12, 12)).astype("i1") for name in "vw"}
    weights |= {"vs": np.float32(0.004), "ws": np.float32(0.007)}
    text = square.replace("Relu(g)", "Identity(g)").replace("y = Add(l, x)", "y = Identity(l)")
    module = import_lowered(parse(text, 21, **weights), contraction=Contraction.TILES).module
    set_target(module, "cuda:sm_90:fp32")
    Runner().run(module, passes("canonicalize,fuse-ranges,fuse-operators"))
    (graph,) = graphs_of(module)
    names = [group.kernel.data for group in graph.groups if group.kernel is not None]
    assert len(names) == 4
    assert len(set(names)) == 2


CLASSIFIER = """g (float[9,64] x) => (float[9,40] y) {
 a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
 v = DequantizeLinear(w, ws)  c = MatMul(b, v)
 d = QuantizeLinear(c, t, o)  y = DequantizeLinear(d, t, o) }"""


@pytest.mark.parametrize("target", ["emu", "cpu"])
def test_a_result_is_dequantised_where_it_is_quantised(target: str):
    weights = RANDOM.integers(-127, 128, (64, 40)).astype("i1")
    scales = {"s": np.float32(0.03), "ws": np.float32(0.01), "t": np.float32(0.25)}
    model = parse(CLASSIFIER, 21, z=np.uint8(117), o=np.uint8(131), w=weights, **scales)
    module = compiler.compile(model, target=target, precision="fp32", quantised="bytes")
    assert len(module.schedule.tasks) == 2
    assert "MatMulInteger" in module.schedule.tasks[-1].kernel
    x = RANDOM.standard_normal((9, 64), "f4")
    (expected,), (found,) = run(model, {"x": x}), module.run({"x": x}).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.25)
    assert (np.abs(found - expected) > 0.01).mean() < 0.02
