"""What a run gives and a node cannot take is one kind of error, wherever the node runs."""

import numpy as np
import pytest
from onnx import parser

import compiler
from compiler import ArgumentError, InputDataError, RunInputError, ShapeError

X = np.ones((1, 1, 2, 2), np.float32)

FAULTS = {
    "Reshape": ("s", np.array([3, 5]), "y = Reshape (x, s)"),
    "Expand": ("s", np.array([2, 2, 3, 2]), "y = Expand (x, s)"),
    "Tile": ("s", np.array([1, 1, 1, -1]), "y = Tile (x, s)"),
    "ConstantOfShape": ("s", np.array([2, -1, 2, 2]), "y = ConstantOfShape (s)"),
    "Pad": ("s", np.array([0, 0, 0, -3, 0, 0, 0, 0]), "y = Pad (x, s)"),
    "Resize": ("f", np.array([1, 1, -1, 2], np.float32), 'y = Resize (x, "", f)'),
    "TopK": ("s", np.array([3]), "y, i = TopK (x, s)"),
    "Range": (
        "f",
        np.array([0], np.float32),
        "z = Squeeze (f) o = Identity (z) y = Range (o, o, z)",
    ),
    "Loop": (
        "s",
        np.array([1, 2]),
        """on = Constant <value = bool {1}> ()
           y = Loop <body = b (int64 i, bool c, float[h, v] u) => (bool c2, float[p, q] w)
             { c2 = Identity (c) w = Concat <axis = 0> (u, u) }> (s, on, m)""",
    ),
}
"""The input at fault, its content, and the nodes that read it."""


def _module(nodes: str) -> compiler.Module:
    text = f"""<ir_version: 10, opset_import: ["": 18]>
        g (float[a, b, h, w] x, int64[k] s, float[l] f, float[p, q] m) => (float y) {{ {nodes} }}"""
    model = parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return compiler.compile(model)


@pytest.mark.parametrize("op_type", FAULTS)
def test_a_node_that_cannot_take_what_a_run_gives(op_type: str):
    name, content, nodes = FAULTS[op_type]
    given = {"x": X, "s": np.array([1]), "f": np.array([1], np.float32), "m": X[0, 0]}
    with pytest.raises(RunInputError, match="correct the model or the inputs of this run"):
        _module(nodes).run({**given, name: content})


def test_such_an_error_is_of_shapes_and_of_data():
    assert issubclass(RunInputError, ShapeError)
    assert issubclass(RunInputError, InputDataError)


@pytest.mark.parametrize("outputs", ["host", "", None, 1, ["numpy"]])
def test_outputs_are_an_argument(outputs: object):
    module = _module("y = Relu (x)")
    with pytest.raises(ArgumentError, match=r"outputs is .*: it must be 'numpy' or 'device'"):
        module.run({"x": X}, outputs=outputs)
