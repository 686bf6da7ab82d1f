"""Names of a model are read from the text of its IR as they were printed, whatever they are."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.utils.exceptions import ParseError

from compiler.frontend.importing import import_model
from compiler.ir.context import parse_module

NAMES = ["ü", "层 🦆", "\u2028\n\t", '"\\E2', "\\\\22", "\x7f"]


def named(name: str) -> onnx.ModelProto:
    """A model whose graph, node, inputs, weights and outputs have a name in theirs."""
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), f"{name} w")
    node = helper.make_node("MatMul", [f"{name} x", weight.name], [f"{name} y"], name=name)
    x, y = (
        helper.make_tensor_value_info(f"{name} {which}", TensorProto.FLOAT, [4, 8])
        for which in "xy"
    )
    graph = helper.make_graph([node], name, [x], [y], [weight])
    imports = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_read_as_they_were_printed(name: str):
    module = import_model(named(name)).module
    assert parse_module(str(module)).is_structurally_equivalent(module)


def test_a_text_that_is_not_unicode_is_refused_where_it_is():
    text = str(import_model(named("ü")).module)
    assert "\\C3\\BC" in text
    with pytest.raises(ParseError, match="a text is not UTF-8"):
        parse_module(text.replace("\\C3\\BC", "\\FF"))
