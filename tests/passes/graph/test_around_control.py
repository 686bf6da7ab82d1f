"""Passes that regroup operators leave what bodies of If, Loop and Scan read, and what reads them,
in order: on random models in any order of passes, and on the smallest ones of each."""

from collections.abc import Sequence
from random import Random

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper, parser

import compiler
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.tools.reference import run_onnxruntime
from tests.shared_models import feeds, shared_models

REGROUPING = (
    "canonicalize",
    "order-scatters",
    "substitute{policy=taso select=cost steps=20 beta=2.0}",
    "batch-gemv",
    "fuse-siblings{matmuls=true convolutions=true}",
    "fuse-attention",
    "fuse-squeeze-excite",
    "fuse-ranges",
    "fuse-gathers",
)
GROUPED = (
    "fuse-operators,fuse-channels-last,fuse-depthwise-pointwise,assign-layouts,emplace-concats,"
    "fold-ranges,share-kernels,partition-graph{policy=ppd max-nodes=4},"
    "assign-streams{policy=opara streams=3},order-launches{policy=critical-path}"
)
TARGETS = ("cpu", "cuda:sm_90:fp32", "hip:gfx90a:fp32")


def check_passes(model: onnx.ModelProto, target: str, passes: Sequence[str], seed: int) -> None:
    """The IR is valid after each pass, and computes what the model does after the last."""
    imported = import_model(model, regions=True)
    set_target(imported.module, target)
    Runner().run(imported.module, parse(",".join((*passes, GROUPED))))
    inputs = feeds(model, seed)
    found = interpret(imported.module, imported.weights, inputs)
    for name, wanted in run_onnxruntime(model, inputs).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-3, atol=1e-4)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shared_models(), st.sampled_from(TARGETS), st.permutations(REGROUPING), st.integers(0, 2**32)
)
def test_any_order_of_passes(model: onnx.ModelProto, target: str, passes: Sequence[str], seed: int):
    check_passes(model, target, passes, seed)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shared_models(), st.integers(0, 2**32))
def test_any_model_on_a_cpu(model: onnx.ModelProto, seed: int):
    module = compiler.compile(model)
    inputs = feeds(model, seed)
    found = module.run(inputs)
    for name, wanted in run_onnxruntime(model, inputs).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-3, atol=1e-4)


BETWEEN = {
    "if": """b = If (go) <
        then_branch = t () => (float[{rows},8] p) {{ p = Relu (a) }},
        else_branch = e () => (float[{rows},8] q) {{ q = Neg (a) }}>""",
    "only the condition": """r = ReduceSum <keepdims = 0> (a) z = Less (r, r) b = If (z) <
        then_branch = t () => (float[{rows},8] p) {{ p = Relu (x) }},
        else_branch = e () => (float[{rows},8] q) {{ q = Neg (x) }}>""",
    "loop": """b = Loop (n, go, x) <body = l (int64 i, bool g, float[{rows},8] s)
        => (bool h, float[{rows},8] u) {{ h = Identity (g) u = Add (s, a) }}>""",
    "only the trip count": """r = ReduceMax <keepdims = 0> (a) m = Cast <to = 7> (r)
        b = Loop (m, go, x) <body = l (int64 i, bool g, float[{rows},8] s)
        => (bool h, float[{rows},8] u) {{ h = Identity (g) u = Add (s, x) }}>""",
    "scan": """f, b = Scan <num_scan_inputs = 1, body = l (float[8] s, float[8] w8)
        => (float[8] u, float[8] o) {{ c = Gather (a, zero) v = Add (s, c) u = Identity (v)
        o = Add (v, w8) }}> (start, long)
        """,
    "nested": """b = If (go) <
        then_branch = t () => (float[{rows},8] p) {{
            p = Loop (n, go, x) <body = l (int64 i, bool g, float[{rows},8] s)
            => (bool h, float[{rows},8] u) {{ h = Identity (g) u = Add (s, a) }}> }},
        else_branch = e () => (float[{rows},8] q) {{ q = Neg (x) }}>""",
}


def tied(between: str, rows: int, kind: str) -> onnx.ModelProto:
    """Two GEMMs of one weight; what is between them reads the first and gives the second's rows."""
    body = BETWEEN[between].format(rows=rows)
    shape = "float[66,8]" if between == "scan" else f"float[{rows},8]"
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[{rows},8] x, bool go, int64 n, float[8] start, float[66,8] long)
        => ({shape} y) <int64 zero = {{0}}>
        {{ a = {kind} (x, w) {body} y = {kind} (b, w) }}"""
    )
    weight = np.random.default_rng(0).integers(-2, 3, (8, 8)).astype("float32")
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


def tied_inputs(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Inputs of a model of tied GEMMs."""
    random = Random(7)
    found: dict[str, np.ndarray] = {"go": np.array(True), "n": np.array(2)}
    for info in model.graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        if info.name not in found:
            numbers = [random.randint(-2, 2) for _ in range(int(np.prod(shape)))]
            found[info.name] = np.reshape(numbers, shape).astype("float32")
    return found


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
@pytest.mark.parametrize("between", BETWEEN)
def test_gemms_of_one_weight_around_a_body(between: str, kind: str):
    model = tied(between, 2, kind)
    inputs, passes = tied_inputs(model), "batch-gemv,fuse-operators"
    imported = import_model(model, regions=True)
    assert any(len([*graph.groups]) for graph in graphs_of(imported.module))
    for target in TARGETS:
        imported = import_model(model, regions=True)
        set_target(imported.module, target)
        Runner().run(imported.module, parse(passes))
        found = interpret(imported.module, imported.weights, inputs)
        np.testing.assert_array_equal(found["y"], run_onnxruntime(model, inputs)["y"])


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("rows", [2, 17])
def test_substitution_does_not_merge_gemms_around_a_body(between: str, rows: int):
    passes = "substitute{policy=taso select=cost},fuse-operators"
    model = tied(between, rows, "MatMul")
    imported = import_model(model, regions=True)
    set_target(imported.module, "cuda:sm_90:fp32")
    Runner().run(imported.module, parse(passes))
    inputs = tied_inputs(model)
    found = interpret(imported.module, imported.weights, inputs)
    np.testing.assert_array_equal(found["y"], run_onnxruntime(model, inputs)["y"])


@pytest.mark.parametrize("target", ["cpu", "emu"])
def test_tied_weights_around_an_if_run(target: str):
    model = tied("if", 2, "MatMul")
    module, inputs = compiler.compile(model, target=target), tied_inputs(model)
    for go in (True, False):
        inputs["go"] = np.array(go)
        wanted = run_onnxruntime(model, inputs)["y"]
        np.testing.assert_array_equal(module.run(inputs)["y"], wanted)
