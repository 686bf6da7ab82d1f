"""Which quotients are stored in 16 bits."""

import pytest
from onnx import parser

from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.ir.types import dtype_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner


@pytest.mark.parametrize(("divisor", "dtype"), [
    ("Clip(n, least)", "float16"), ("Clip(n, least, large)", "float16"),
    ("Clip(n, least, most)", "float32"), ("Add(n, least)", "float16"), ("Add(n, s)", "float32"),
    ("Abs(x)", "float32"), ("Reshape(n, column)", "float16"), ("Reshape(n, row)", "float32"),
])  # fmt: skip
def test_rows_divided_by_their_norms_are_stored_narrow(divisor: str, dtype: str):
    """Only where the divisor is surely no less than the norm, and the norm that of the row."""
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
    g (float[32, 32] x, float[32, 1] s) => (float[32, 32] y)
    <int64[1] axis = {{-1}}, float least = {{1e-12}}, float most = {{1.0}},
     float large = {{3.4028235e38}}, int64[2] column = {{32, 1}}, int64[2] row = {{1, 32}}> {{
        n = ReduceL2(x, axis) d = {divisor} q = Div(x, d) t = Transpose(x)
        y = MatMul(q, t)
    }}"""
    module = import_model(parser.parse_model(text)).module
    set_target(module, "cuda:sm_90:fp16")
    Runner().run(module, parse("fuse-operators,reduce-precision{storage=float16}"))
    (graph,) = graphs_of(module)
    (group,) = (g for g in graph.groups if any(op.type_name == "Div" for op in g.operators))
    assert [dtype_of(v.type) for v in group.outputs] == [dtype]
