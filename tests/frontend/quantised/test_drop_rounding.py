"""Without rounding, what was quantised is clipped to the range of its integers, and else stays."""

from collections import Counter, defaultdict
from collections.abc import Set
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from onnx import helper
from onnx.numpy_helper import from_array, to_array

import compiler
from compiler.frontend.interpreter import interpret
from compiler.ir.dataflow import OperatorOp
from compiler.rewrite.quantised.analysis import KEEP_CODES
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import parse, run
from tests.frontend.quantised.models import START, quantised_models
from tests.lowered import import_lowered

RANDOM = np.random.default_rng(5)
CODE = {"s": np.float32(0.05), "z": np.uint8(117)}
RANGE = -117 * 0.05, (255 - 117) * 0.05


def operators(text: str, /, **constants: Any) -> Counter[str]:
    """How many operators of each type the imported model has."""
    module = import_lowered(parse(text, 21, **constants), contraction=Contraction.UNROUNDED).module
    return Counter(op.type_name for op in module.walk() if isinstance(op, OperatorOp))


def clipped(model: onnx.ModelProto, kept: Set[str] = frozenset()) -> onnx.ModelProto:
    """The model with a Clip instead of each pair of QuantizeLinear and DequantizeLinear.

    Pairs whose results are `kept` stay.
    """
    found = onnx.ModelProto()
    found.CopyFrom(model)
    known = {x.name: to_array(x) for x in found.graph.initializer}
    made = {node.output[0]: node for node in found.graph.node}
    for node in found.graph.node:
        before = made.get(node.input[0])
        if node.op_type == "DequantizeLinear" and before and node.output[0] not in kept:
            scale, zero = (known[name] for name in before.input[1:])
            limits = np.iinfo(zero.dtype)
            ends = [(limit - int(zero)) * scale for limit in (limits.min, limits.max)]
            names = [f"{node.output[0]}.{end}" for end in ("low", "high")]
            arrays = [from_array(np.array(x, "f4"), y) for x, y in zip(ends, names, strict=True)]
            found.graph.initializer.extend(arrays)
            inputs, outputs = [before.input[0], *names], list(node.output)
            node.CopyFrom(helper.make_node("Clip", inputs, outputs))
    return found


def operands(model: onnx.ModelProto, contracted: Set[str]) -> set[str]:
    """The dequantised tensors whose integers contractions of some names read, perhaps moved.

    Of numbers that are quantised again alike, perhaps moved, it is the first pair.
    """
    made = {node.output[0]: node for node in model.graph.node}
    codes = {x.name: (x.data_type, to_array(x).tolist()) for x in model.graph.initializer}

    def source(name: str) -> onnx.NodeProto | None:
        node = made.get(name)
        return source(node.input[0]) if node and node.op_type in KEEP_CODES else node

    def first(pair: onnx.NodeProto) -> onnx.NodeProto:
        quantised = made.get(pair.input[0])
        before = source(quantised.input[0]) if quantised else None
        if before is None or before.op_type != "DequantizeLinear":
            return pair
        alike = [codes[x] for x in before.input[1:]] == [codes[x] for x in pair.input[1:]]
        return first(before) if alike else pair

    names = [name for x in model.graph.node if x.name in contracted for name in x.input[:2]]
    pairs = [node for node in map(source, names) if node and node.op_type == "DequantizeLinear"]
    return {first(node).output[0] for node in pairs}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models(attends=True))
def test_any_quantised_model(model: onnx.ModelProto):
    imported = import_lowered(model, contraction=Contraction.UNROUNDED)
    assert imported.contraction is Contraction.UNROUNDED
    x = np.random.default_rng(1).standard_normal(START, "f4") * 4
    (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
    (expected,) = run(clipped(model), {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-2)  # layers amplify rounding


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models(attends=True))
def test_only_operands_of_bytes_are_rounded(model: onnx.ModelProto):
    for node in model.graph.node:
        node.name = f"node of {node.output[0]}"
    imported = import_lowered(model, contraction=Contraction.OPERANDS)
    names = defaultdict[str, set[str]](set)
    for op in imported.module.walk():
        if isinstance(op, OperatorOp):
            names[op.type_name].add(op.node_name.partition("/")[0])
    kept = operands(model, names["ConvInteger"] | names["MatMulInteger"])
    made = {node.output[0]: node for node in model.graph.node}
    pairs = (made.get(made[name].input[0]) for name in kept)
    assert names["Round"] == {pair.name for pair in pairs if pair is not None}
    x = np.random.default_rng(1).standard_normal(START, "f4") * 4
    (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
    (expected,) = run(clipped(model, kept), {"x": x})
    difference = np.linalg.norm(found - expected)  # numbers between two integers are rounded apart
    assert difference <= (0.1 if names["Round"] else 1e-3) * np.linalg.norm(expected)


def test_a_residual_is_rounded_where_a_matmul_reads_its_bytes():
    text = """g (float[4,32] x) => (float[4,32] y) {
        a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  c = DequantizeLinear(v, s)
        d = MatMul(b, c)  e = QuantizeLinear(d, t, z)  f = DequantizeLinear(e, t, z)
        y = Add(b, f) }"""
    weights = RANDOM.integers(-127, 128, (32, 32)).astype("i1")
    model = parse(text, 21, v=weights, t=np.float32(0.3), **CODE)
    imported = import_lowered(model, contraction=Contraction.OPERANDS)
    names = Counter(op.type_name for op in imported.module.walk() if isinstance(op, OperatorOp))
    assert imported.contraction is Contraction.OPERANDS
    assert (names["MatMulInteger"], names["Round"]) == (1, 1)
    x = RANDOM.standard_normal((4, 32), "f4") * 4
    (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
    (expected,) = run(clipped(model, {"b"}), {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_pair_is_a_clip_and_a_relu_of_it_none_of_its_own():
    text = """g (float[4,8] x) => (float[4,8] y) {
        r = Relu(x)  a = QuantizeLinear(r, s, z)  y = DequantizeLinear(a, s, z) }"""
    assert operators(text, **CODE) == {"Clip": 1}
    model = parse(text, 21, **CODE)
    imported = import_lowered(model, contraction=Contraction.UNROUNDED)
    x = RANDOM.standard_normal((4, 8), "f4") * 9
    (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
    np.testing.assert_allclose(found, np.clip(x, 0, RANGE[1]), rtol=1e-6)


def test_what_the_range_holds_is_not_clipped():
    text = """g (float[4,8] x) => (float[8,4] y) {
        a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
        c = Transpose<perm=[1,0]>(b)  d = QuantizeLinear(c, s, z)  e = DequantizeLinear(d, s, z)
        f = Mul(e, h)  i = QuantizeLinear(f, t, z)  j = DequantizeLinear(i, t, z)
        k = Softmax(j)  m = QuantizeLinear(k, u, o)  y = DequantizeLinear(m, u, o) }"""
    constants = {"h": np.float32(0.5), "t": np.float32(0.025), "u": np.float32(1 / 255)}
    found = operators(text, o=np.uint8(0), **CODE, **constants)
    assert found == {"Clip": 1, "Transpose": 1, "Mul": 1, "Softmax": 1}


def test_bytes_that_are_a_result_or_have_another_scale_are_rounded():
    text = """g (float[4,8] x) => (uint8[4,8] a, float[4,8] y) {
        a = QuantizeLinear(x, s, z)  y = DequantizeLinear(a, t, z) }"""
    assert operators(text, t=np.float32(0.1), **CODE)["Round"] == 1
    text = text.replace("y = DequantizeLinear(a, t, z)", "y = DequantizeLinear(a, s, z)")
    assert operators(text, **CODE)["Clip"] == 2, "one of integers, one of floats"


def test_a_dequantised_input_and_float8s_stay():
    text = """g (uint8[4,8] x) => (float[4,8] y) { y = DequantizeLinear(x, s, z) }"""
    imported = import_lowered(parse(text, 21, **CODE), contraction=Contraction.UNROUNDED)
    assert imported.contraction is None
    text = """g (float[4,8] x) => (float[4,8] y) {
        a = QuantizeLinear<output_dtype=17>(x, s)  y = DequantizeLinear(a, s) }"""
    model = parse(text, 21, s=np.float32(0.05))
    assert import_lowered(model, contraction=Contraction.UNROUNDED).contraction is None


def test_rows_of_a_table_are_those_of_its_numbers():
    text = """g (int64[5] i) => (float[5,8] y) {
        a = Gather(v, i)  b = DequantizeLinear(a, s, z)  y = Relu(b) }"""
    table = RANDOM.integers(0, 256, (30, 8)).astype("u1")
    assert operators(text, v=table, **CODE) == {"Gather": 1, "Relu": 1}
    imported = import_lowered(parse(text, 21, v=table, **CODE), contraction=Contraction.UNROUNDED)
    rows = RANDOM.integers(0, 30, 5)
    (found,) = interpret(imported.module, imported.weights, {"i": rows}).values()
    expected = np.maximum((table[rows].astype("f4") - 117) * np.float32(0.05), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rows_of_a_dequantised_table_are_within_its_range():
    text = """g (int64[5] i) => (float[5,80] y) {
        t = DequantizeLinear(v, s, z)  a = Gather(t, i)
        b = QuantizeLinear(a, s, z)  c = DequantizeLinear(b, s, z)  y = Relu(c) }"""
    table = RANDOM.integers(0, 256, (1000, 80)).astype("u1")
    assert operators(text, v=table, **CODE) == {"Gather": 1, "Relu": 1}


LAYERS = """g (float[2,16,6,5] x) => (float[2,4] y) {
 a, s, z = DynamicQuantizeLinear(x)  c = ConvInteger<pads=[1,1,1,1]>(a, v, z)  d = Cast<to=1>(c)
 e = Mul(s, vs)  f = Mul(d, e)  h = ReduceMax<keepdims=0>(f, axes)
 i, t, o = DynamicQuantizeLinear(h)  j = MatMulInteger(i, w, o, wz)  k = Cast<to=1>(j)
 l = Mul(ws, t)  y = Mul(l, k) }"""


def layers(symmetric: bool) -> onnx.ModelProto:
    """A convolution and a matmul of tensors that are quantised by their own range."""
    kind = "i1" if symmetric else "u1"
    weights = RANDOM.integers(0, 127, (9, 4)).astype(kind)
    return parse(
        LAYERS,
        21,
        v=RANDOM.integers(-127, 128, (9, 16, 3, 3)).astype("i1"),
        vs=RANDOM.uniform(0.001, 0.002, (9, 1, 1)).astype("f4"),
        w=weights,
        wz=np.array(0 if symmetric else 128, kind),
        ws=RANDOM.uniform(0.001, 0.002, 4).astype("f4"),
        axes=np.array([2, 3]),
    )


@pytest.mark.parametrize("symmetric", [True, False])
def test_contractions_of_integers_of_a_run_are_of_floats(symmetric: bool):
    model = layers(symmetric)
    imported = import_lowered(model, contraction=Contraction.UNROUNDED)
    names = Counter(op.type_name for op in imported.module.walk() if isinstance(op, OperatorOp))
    assert names == {"Conv": 1, "ReduceMax": 1, "MatMul": 1}
    x = RANDOM.standard_normal((2, 16, 6, 5), "f4")
    (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
    (expected,) = run(model, {"x": x})
    assert 1e-5 < np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.02


def test_integers_of_another_range_stay():
    text = """g (float[6,16] x) => (float[6,4] y) {
        h = Relu(x)  a, s, z = DynamicQuantizeLinear(h)  b = QuantizeLinear(x, s, z)
        p = MatMulInteger(b, w, z)  f = Cast<to=1>(p)  m = Mul(s, ws)  y = Mul(f, m) }"""
    weights = RANDOM.integers(-127, 128, (16, 4)).astype("i1")
    model = parse(text, 21, w=weights, ws=np.float32(0.01))
    imported = import_lowered(model, contraction=Contraction.UNROUNDED)
    assert imported.contraction is Contraction.FLOATS


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_on_an_emulated_gpu(precision: str):
    model, x = layers(True), RANDOM.standard_normal((2, 16, 6, 5), "f4")
    module = compiler.compile(model, target=f"emu:sm_90:{precision}", quantised="unrounded")
    assert not any("Integer" in task.kernel for task in module.schedule.tasks)
    (found,), (expected,) = module.run({"x": x}).values(), run(model, {"x": x})
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.02
