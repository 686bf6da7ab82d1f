"""Each difference on the page exists, and Flowloom's result is the one that the page gives."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import compiler
from tests.fuzz.difference_examples import EXAMPLES, WITHOUT_EXAMPLE, DifferenceExample
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
    assert {*missing} == WITHOUT_EXAMPLE


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_difference_is_as_the_page_says(example: DifferenceExample):
    names = [name if x is not None else "" for name, x in example.inputs.items()]
    wanted = [f"y{i}" for i in range(example.outputs)]
    if example.processor and example.processor not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"the processor lacks {example.processor}")
    node = helper.make_node(
        example.operator, names, wanted, domain=example.domain, **example.attributes
    )
    values = {name: x for name, x in example.inputs.items() if x is not None}
    first, *others = values
    constants = [numpy_helper.from_array(values[name], name) for name in others]
    kind = helper.np_dtype_to_tensor_dtype(values[first].dtype)
    types = example.types or _TYPES.get(example.operator, [kind])
    nodes = [node]
    if example.widened:
        packed = helper.make_node(example.operator, names, ["packed"], **example.attributes)
        nodes = [packed, helper.make_node("Cast", ["packed"], wanted, to=TensorProto.FLOAT)]
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info(first, kind, values[first].shape)],
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(wanted, types, strict=True)],
        constants,
    )
    opsets = [helper.make_opsetid(example.domain, example.opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)

    call = call_of(node, example.opset, values)
    difference = known(call)
    assert difference is not None
    assert difference.when.startswith(example.when)
    feeds = {first: values[first]}
    session: Any = onnxruntime.InferenceSession(model.SerializeToString(), OPTIONS)
    other: Array = session.run(None, feeds)[example.output]
    module = compiler.compile(model, budget=0)
    found: Array = np.asarray([*module.run(feeds).values()][example.output])
    differs = not np.array_equal(found, other, equal_nan=found.dtype.kind == "f")
    if example.last_release:
        release = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
        differs |= release > tuple(map(int, example.last_release.split(".")))
    assert differs
    if not example.decided:
        return
    corrected = difference.correct and difference.correct(call)[example.output]
    expected = example.result if corrected is None else corrected
    assert expected is not None
    assert found.shape == expected.shape
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=2e-6)
    else:
        np.testing.assert_array_equal(found, expected)
