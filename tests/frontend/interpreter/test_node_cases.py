"""onnx's own test cases with every input constant: what import folds is the expected result."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from compiler.errors import UnsupportedOperatorError
from compiler.frontend.interpreter import interpret
from compiler.tensors.dtypes import ELEMENT_BYTES
from tests.frontend.test_onnx_nodes import LETTERS, Case, array, cases, has_tensors_only, tolerance
from tests.lowered import import_lowered

REFUSED = {
    # random numbers, which training draws too
    "BatchNormalization", "Bernoulli", "Dropout", "RandomUniformLike",
    # sequences that are a model's result, subgraphs of older opsets
    "If", "Loop", "Scan", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
    # nothing evaluates them
    "DeformConv", "GridSample", "ImageDecoder", "RegexFullMatch", "RoiAlign", "STFT",
    "StringNormalizer", "StringSplit", "TfIdfVectorizer",
}  # fmt: skip
"""Operators of which some cases are refused, with an error that says why."""


def _tensor(value: object, name: str) -> onnx.TensorProto:
    if not isinstance(value, onnx.TensorProto):
        return numpy_helper.from_array(np.asarray(value), name)
    renamed = onnx.TensorProto()
    renamed.CopyFrom(value)
    renamed.name = name
    return renamed


def constant_model(case: Case) -> onnx.ModelProto:
    """The case's model with its inputs turned into constants.

    Outputs that no kernel knows are made float32, or compared with the expected strings.
    """
    model, (inputs, outputs) = onnx.ModelProto(), case.data_sets[0]
    model.CopyFrom(case.model)
    graph = model.graph
    for info, value in zip(case.model.graph.input, inputs, strict=True):
        graph.initializer.append(_tensor(value, info.name))
    del graph.input[:]
    for info, value in zip(graph.output, outputs, strict=True):
        _make_readable(graph, info, value)
    return model


def _make_readable(graph: onnx.GraphProto, info: onnx.ValueInfoProto, value: object) -> None:
    name, expected = info.name, array(value)
    if expected.dtype.name in ELEMENT_BYTES:
        return
    info.name, element = f"{name}.read", onnx.TensorProto.FLOAT
    if expected.dtype.kind in "OUS":
        graph.initializer.append(_tensor(value, f"{name}.expected"))
        graph.node.append(helper.make_node("Equal", [name, f"{name}.expected"], [info.name]))
        element = onnx.TensorProto.BOOL
    else:
        graph.node.append(helper.make_node("Cast", [name], [info.name], to=element))
    info.type.tensor_type.elem_type = element


def _expected(value: object) -> np.ndarray:
    expected = array(value)
    if expected.dtype.kind in "OUS":
        return np.ones(expected.shape, bool)
    return expected if expected.dtype.name in ELEMENT_BYTES else expected.astype(np.float32)


def folded(case: Case) -> list[np.ndarray] | None:
    """The outputs that import computes, None if it refuses an operator."""
    try:
        imported = import_lowered(constant_model(case))
    except UnsupportedOperatorError:
        return None
    assert "dataflow.op" not in str(imported.module) or case.model.graph.node[0].op_type == "Tile"
    return list(interpret(imported.module, imported.weights, {}).values())


def agrees(case: Case) -> bool:
    """Whether the case folds; fails the test if it folds to something else."""
    got = folded(case)
    if got is None:
        return False
    for actual, wanted in zip(got, map(_expected, case.data_sets[0][1]), strict=True):
        assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape), case.name
        near = tolerance(actual.dtype)
        pair = actual.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(*pair, rtol=near, atol=near / 10, err_msg=case.name)
    return True


@pytest.mark.parametrize("letter", LETTERS)
def test_what_folds_is_right(letter: str):
    tried = [case for case in cases()[letter] if has_tensors_only(case.model)]
    tried = [case for case in tried if not case.name.endswith("_expanded")]
    refused = {case.model.graph.node[0].op_type for case in tried if not agrees(case)}
    assert refused <= REFUSED
