"""Each difference on the page exists, and Flowloom's result is the one that the page gives."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

import compiler
from tests.fuzz.difference_examples import EXAMPLES, SHOWN_BY_THE_SEARCH, DifferenceExample
from tests.fuzz.differences import DIFFERENCES, call_of, known
from tests.fuzz.oracle import OPTIONS

Array = NDArray[Any]
_TYPES = {"DynamicQuantizeLinear": [2, 1, 2], "QuantizeLinear": [2], "TopK": [1, 7]}
"""The element types of outputs, where they are not that of the first input."""


def test_every_difference_has_an_example():
    shown = {(e.when, e.operator) for e in EXAMPLES}
    missing = [
        (d.operators, d.when)
        for d in DIFFERENCES
        if not any(d.when == when and op in d.operators.split() for when, op in shown)
    ]
    assert {*missing} <= SHOWN_BY_THE_SEARCH.keys()


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_difference_is_as_the_page_says(example: DifferenceExample):
    names = [name if x is not None else "" for name, x in example.inputs.items()]
    wanted = [f"y{i}" for i in range(example.outputs)]
    node = helper.make_node(example.operator, names, wanted, **example.attributes)
    values = {name: x for name, x in example.inputs.items() if x is not None}
    first, *others = values
    constants = [numpy_helper.from_array(values[name], name) for name in others]
    kind = helper.np_dtype_to_tensor_dtype(values[first].dtype)
    types = _TYPES.get(example.operator, [kind])
    graph = helper.make_graph(
        [node],
        "main",
        [helper.make_tensor_value_info(first, kind, values[first].shape)],
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(wanted, types, strict=True)],
        constants,
    )
    opsets = [helper.make_opsetid("", example.opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)

    call = call_of(node, example.opset, values)
    difference = known(call)
    assert difference is not None
    assert difference.when.startswith(example.when)
    feeds = {first: values[first]}
    session: Any = onnxruntime.InferenceSession(model.SerializeToString(), OPTIONS)
    other: Array = session.run(None, feeds)[example.output]
    module = compiler.compile(model, budget=0)
    found: Array = np.asarray([*module.run(feeds).values()][example.output])
    assert found.shape == other.shape
    assert not np.array_equal(found, other, equal_nan=found.dtype.kind == "f")
    if example.decided:
        corrected = difference.correct and difference.correct(call)[example.output]
        expected = example.result if corrected is None else corrected
        assert expected is not None
        np.testing.assert_allclose(found, expected, rtol=2e-6)
