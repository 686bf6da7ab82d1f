"""onnx's own test cases: whatever imports computes the expected result."""

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.helper import get_attribute_value

from compiler.errors import UnsupportedOperatorError
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.frontend.node import ModelNode
from compiler.frontend.sources import check_source
from compiler.net.graph import constant
from compiler.tensors.dtypes import ELEMENT_BYTES
from tests.pages.onnx_nodes import node_cases

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


Case = Any
"""onnx's TestCase, whose fields have no types."""


@cache
def cases() -> Mapping[str, list[Case]]:
    """The cases of the default domain by the first letter of their operator."""
    found: defaultdict[str, list[Case]] = defaultdict(list)
    for case in node_cases().values():
        domains = {node.domain for node in case.model.graph.node}
        if domains <= {""} and case.model.opset_import[0].version >= 7:
            found[case.model.graph.node[0].op_type[0].upper()].append(case)
    return found


def array(value: object) -> np.ndarray:
    """The array of a case's input or output."""
    return (
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    )


def has_tensors_only(model: onnx.ModelProto) -> bool:
    """Whether inputs and outputs are tensors."""
    infos = (*model.graph.input, *model.graph.output)
    return all(info.type.HasField("tensor_type") for info in infos)


def with_constants(model: onnx.ModelProto, inputs: dict[str, np.ndarray]):
    """The model with inputs after the first that are small vectors turned into constants."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for info in list(fixed.graph.input)[1:]:
        value = inputs[info.name]
        if value.ndim <= 1 and value.size <= 8 and value.dtype.kind in "iufb":
            fixed.graph.input.remove(info)
            fixed.graph.initializer.append(numpy_helper.from_array(value, info.name))
    return fixed


def imported(model: onnx.ModelProto, inputs: dict[str, np.ndarray]):
    """The imported model, its small inputs made constant where it needs that, or None."""
    shapes = {name: value.shape for name, value in inputs.items()}
    for attempt in (model, with_constants(model, inputs)):
        names = {info.name for info in attempt.graph.input}
        given = {n: s for n, s in shapes.items() if n in names and all(s)}
        try:
            return import_model(attempt, given), names
        except UnsupportedOperatorError as error:
            if "run time" not in str(error):
                return None
    return None


def tolerance(dtype: np.dtype) -> float:
    """A relative and absolute tolerance for a floating-point dtype."""
    return {1: 0.5, 2: 2e-2}.get(dtype.itemsize, 1e-3)


def agrees(case: Case) -> bool:
    """Whether the case imports; fails the test if it then computes something else."""
    model, (inputs, outputs) = case.model, case.data_sets[0]
    if not has_tensors_only(model):
        return False
    feeds = {i.name: array(v) for i, v in zip(model.graph.input, inputs, strict=True)}
    found = imported(model, feeds)
    if found is None:
        return False
    result, names = found
    result.module.verify()
    given = {name: value for name, value in feeds.items() if name in names}
    got = list(interpret(result.module, result.weights, given).values())
    for actual, wanted in zip(got, map(array, outputs), strict=True):
        assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape), case.name
        if actual.dtype.kind in "iub":
            assert (actual == wanted).all(), case.name
        else:
            near = tolerance(actual.dtype)
            pair = actual.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_allclose(*pair, rtol=near, atol=near / 10, err_msg=case.name)
    return True


@pytest.mark.parametrize("letter", LETTERS)
def test_what_imports_is_right(letter: str):
    right = sum([agrees(case) for case in cases()[letter]])
    assert right >= len(cases()[letter]) // 4 or letter in "CQUN", (
        f"{right} of {len(cases()[letter])}"
    )


def source_of(case: Case) -> tuple[ModelNode, list[np.ndarray | None]] | None:
    """A case of one node as its check sees it, inputs known, and its results; None for others."""
    graph, (given, results) = case.model.graph, case.data_sets[0]
    if len(graph.node) != 1 or not has_tensors_only(case.model):
        return None
    node, infos = graph.node[0], (*graph.input, *graph.output)
    pairs = zip(infos, (*given, *results), strict=True)
    arrays = {info.name: array(value) for info, value in pairs}
    if any(value.dtype.name not in ELEMENT_BYTES for value in arrays.values()):
        return None
    inputs = [arrays.get(name) for name in node.input]
    operands = [None if a is None else constant("", a) for a in inputs]
    values = {a.name: get_attribute_value(a) for a in node.attribute}
    attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}
    version = onnx.defs.get_schema(node.op_type, case.model.opset_import[0].version).since_version
    used = [True] * len(node.output)
    read = ModelNode(node.op_type, version, operands, attributes, used)
    return read, [arrays.get(name) for name in node.output]


def test_the_table_gives_the_types_of_the_results():
    judged = 0
    for case in (case for letter in LETTERS for case in cases()[letter]):
        found = source_of(case)
        if found is None or (types := check_source(found[0])) is None:
            continue
        judged += 1
        for type, result in zip(types, found[1], strict=True):
            wanted = None if result is None else (result.dtype.name, result.shape)
            assert wanted in (None, (type.dtype, type.shape)), f"{case.name}: {type}"
    assert judged > 700
