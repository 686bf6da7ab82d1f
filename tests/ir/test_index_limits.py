"""The limits of inputs that operators take as indices."""

import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.frontend.importing import import_model
from compiler.ir.dataflow import GraphOp
from compiler.ir.index_limits import index_limits


def graph_of(text: str) -> GraphOp:
    module: ModuleOp = import_model(onnx.parser.parse_model(text)).module
    return next(op for op in module.ops if isinstance(op, GraphOp))


def model(body: str, inputs: str, outputs: str) -> str:
    head = '<ir_version: 10, opset_import: ["" : 18]>'
    return f"{head} main ({inputs}) => ({outputs}) {{ {body} }}"


@pytest.mark.parametrize(
    ("body", "indices", "output", "limits"),
    [
        ("y = Gather (x, i)", "int64[5] i", "float[5,3] y", {"i": 7}),
        ("y = Gather <axis=1> (x, i)", "int64[5] i", "float[7,5] y", {"i": 3}),
        ("y = GatherND (x, i)", "int64[5,2] i", "float[5] y", {"i": 3}),
        ("y = GatherElements (x, i)", "int64[5,3] i", "float[5,3] y", {"i": 7}),
        ("y = ScatterND (x, i, x)", "int64[7,1] i", "float[7,3] y", {"i": 7}),
        ("y = Gather (e, i)", "float[0,3] e, int64[5] i", "float[5,3] y", {"i": 1}),
        (
            "d = Constant <value_ints=[2]> () j = Tile (i, d) y = Gather (x, j)",
            "int64[2] i",
            "float[4,3] y",
            {"i": 7},
        ),
        (
            "d = Constant <value_ints=[1,0]> () j = Pad (i, d) k = Flatten <axis=0> (j)"
            " y = Gather (x, k)",
            "int64[2] i",
            "float[1,3,3] y",
            {"i": 7},
        ),
        ("y = Add (x, i)", "float[7,3] i", "float[7,3] y", {}),
        ("j = Neg (i) y = Gather (x, j)", "int64[5] i", "float[5,3] y", {}),
    ],
)
def test_indices_are_below_the_size_of_what_they_index(
    body: str, indices: str, output: str, limits: dict[str, int]
):
    assert index_limits(graph_of(model(body, f"float[7,3] x, {indices}", output))) == limits


def test_an_input_has_the_least_of_its_limits_wherever_its_numbers_go():
    body = """
        a = Constant <value_ints=[1]> () u = Unsqueeze (i, a)
        n = Concat <axis=0> (u, j) m = Cast <to=7> (n)
        y = GatherND (x, m) z = Gather (x, i)
    """
    inputs = "float[9,2] x, int32[4] i, int32[3,1] j"
    outputs = "float[7,2] y, float[4,2] z"
    assert index_limits(graph_of(model(body, inputs, outputs))) == {"i": 9, "j": 9}
    narrow = body.replace("z = Gather (x, i)", "z = Gather <axis=1> (x, i)")
    found = index_limits(graph_of(model(narrow, inputs, "float[7,2] y, float[9,4] z")))
    assert found == {"i": 2, "j": 9}
