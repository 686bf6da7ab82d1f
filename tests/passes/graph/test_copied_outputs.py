"""Outputs that contractions read as copies in 16 bits, as attention reads the keys of a prefill."""

import numpy as np
import pytest
from onnx import numpy_helper, parser

from compiler.frontend.export import export_model
from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of
from compiler.ir.types import dtype_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.tools.reference import run_onnxruntime

KEYS = "t = Transpose <perm=[0, 2, 1]> (h) k = Neg (t)"
"""A pointwise kernel between two MatMuls computes the output `k`."""


def reduced(rows: int, keys: str = KEYS, scores: str = "MatMul (q, k)") -> GraphOp:
    """The groups of the scores of some rows with keys that are an output; results are checked."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        net (float[1,{rows},32] x) => (float[1,{rows},{rows}] y, float[1,32,{rows}] k) {{
          q = MatMul (x, a) h = MatMul (x, b) {keys} s = {scores} y = Relu (s)
        }}"""
    )
    rng = np.random.default_rng(rows)
    for name in "ab":
        weight = rng.standard_normal((32, 32)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    inputs = {"x": rng.standard_normal((1, rows, 32)).astype(np.float32)}
    imported = import_model(model)
    passes = "fuse-operators,reduce-precision{storage=float16}"
    set_target(imported.module, "cuda:sm_90:fp16")
    Runner().run(imported.module, parse(passes))
    text = str(imported.module)
    Runner().run(imported.module, parse("reduce-precision{storage=float16}"))
    assert str(imported.module) == text
    found = run_onnxruntime(export_model(imported.module, imported.weights), inputs)
    for name, array in run_onnxruntime(model, inputs).items():
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], array, rtol=1e-2, atol=0.5)
    (graph,) = graphs_of(imported.module)
    return graph


def copies(graph: GraphOp) -> int:
    """The groups that write a tensor in two types; contractions must read the narrow one."""
    doubled = 0
    for group in graph.groups:
        types = [dtype_of(value.type) for value in group.outputs]
        doubled += types == ["float32", "float16"]
        if any(op.type_name == "MatMul" for op in group.operators) and doubled:
            assert {dtype_of(v.type) for v in group.inputs} == {"float16"}
    return doubled


def test_whole_tiles_read_a_copy():
    assert copies(reduced(16)) == 1


@pytest.mark.parametrize(
    ("rows", "keys", "scores"),
    [
        (8, KEYS, "MatMul (q, k)"),  # no whole tile
        (32, KEYS, "Mul (q, k)"),  # no contraction
        (16, KEYS, "MatMul (x, k)"),  # a wide partner
        (16, KEYS.replace("k = Neg (t)", "u = Tanh (t) k = Exp (u)"), "MatMul (q, k)"),  # no bound
    ],
)
def test_others_read_the_output(rows: int, keys: str, scores: str):
    assert copies(reduced(rows, keys, scores)) == 0
