"""Every operator that ONNX defines as a function compiles, in every version: by its rule or
kernel, and by the function, as onnx's reference implementation says."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, numpy_helper
from onnx.reference import ReferenceEvaluator

import compiler
from compiler.errors import UnsupportedOperatorError
from compiler.frontend.importing import import_model
from compiler.frontend.importing.specialise import BodyNode, Specialiser
from compiler.frontend.importing.unknown import RANDOM
from compiler.frontend.interpreter import interpret
from tests.frontend.test_onnx_nodes import (
    array,
    has_tensors_only,
    imported,
    tolerance,
)
from tests.pages.onnx_nodes import node_cases

Schema = tuple[str, str, int]
"""The domain, the name and the version of an operator."""

SCHEMAS: Sequence[Any] = defs.get_all_schemas_with_history()
FUNCTIONS: list[Schema] = sorted(
    (schema.domain, schema.name, schema.since_version)
    for schema in SCHEMAS
    if (schema.has_function or schema.has_context_dependent_function) and not schema.deprecated
)

CONSTANT = ("BlackmanWindow", "HammingWindow", "HannWindow", "Range")
"""Operators whose inputs decide the shape of the result."""

NOT_INFERRED = ("MeanVarianceNormalization",)
"""Operators whose function onnx's own shape inference refuses."""

MOST = 3
"""The cases of each version that are compared."""


@cache
def cases_of_operators() -> Mapping[tuple[str, str], list[Any]]:
    """Onnx's own cases of one node, by its domain and operator."""
    found: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
    for case in node_cases().values():
        nodes = case.model.graph.node
        if len(nodes) == 1 and "expanded" not in case.name:
            found[nodes[0].domain, nodes[0].op_type].append(case)
    return found


def of_version(case: Any, domain: str, version: int) -> onnx.ModelProto | None:
    """A case's model with another version of the operator; None where that does not take it."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = min(model.ir_version, 10)
    for opset in model.opset_import:
        if opset.domain == domain:
            opset.version = version if domain else max(version, 7)
    checker: Any = onnx.checker
    try:
        checker.check_model(model, full_check=model.graph.node[0].op_type not in NOT_INFERRED)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return model


def models_of(schema: Schema) -> list[tuple[onnx.ModelProto, dict[str, Any]]]:
    """Models of a version of an operator, with inputs."""
    domain, name, version = schema
    found: list[tuple[onnx.ModelProto, dict[str, Any]]] = []
    for case in cases_of_operators()[domain, name]:
        model = of_version(case, domain, version)
        if model is not None and len(found) < MOST:
            names = [info.name for info in model.graph.input]
            values = [given(value) for value in case.data_sets[0][0]]
            found.append((model, dict(zip(names, values, strict=True))))
    return found


def given(value: Any) -> Any:
    """The array of an input, or those of a sequence."""
    return [array(item) for item in value] if is_list(value) else array(value)


def is_list(value: Any) -> bool:
    """Whether a value is a sequence."""
    return isinstance(value, list)


def evaluated(model: onnx.ModelProto, inputs: Mapping[str, Any], name: str) -> list[Any]:
    """The results of a model, as one static graph where it has tensors only."""
    if not has_tensors_only(model):
        return list(compiler.compile(model).run(inputs).values())
    if name in CONSTANT:
        tensors = [numpy_helper.from_array(value, key) for key, value in inputs.items()]
        fixed = onnx.ModelProto()
        fixed.CopyFrom(model)
        del fixed.graph.input[:]
        fixed.graph.initializer.extend(tensors)
        model, inputs = fixed, {}
    found = imported(model, dict(inputs))
    assert found is not None
    result, names = found
    inputs = {key: value for key, value in inputs.items() if key in names}
    return list(interpret(result.module, result.weights, inputs).values())


def check(schema: Schema) -> None:
    """Compare the cases of a version with onnx's reference implementation."""
    models = models_of(schema)
    assert models, "onnx has no case of this version: write one"
    for model, inputs in models:
        reference: Any = ReferenceEvaluator(model)
        wanted: list[Any] = reference.run(None, inputs)
        for found, value in zip(evaluated(model, inputs, schema[1]), wanted, strict=True):
            for one, other in zip(tensors_of(found), tensors_of(value), strict=True):
                near(one, other)


def tensors_of(value: Any) -> list[np.ndarray]:
    """The tensors of a sequence, or a tensor alone."""
    return [np.asarray(item) for item in (value if is_list(value) else [value])]


def near(found: np.ndarray, wanted: np.ndarray) -> None:
    """Compare arrays: floats to rounding."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
    elif found.dtype.kind in "fV":
        close = tolerance(found.dtype)
        pair = found.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(*pair, rtol=close, atol=close / 10)


def named(schema: Schema) -> str:
    return f"{schema[1]}-{schema[2]}"


COMPILED = [schema for schema in FUNCTIONS if schema[1] not in RANDOM]


@pytest.mark.parametrize("schema", COMPILED, ids=named)
def test_every_function_operator_compiles(schema: Schema):
    check(schema)


@pytest.mark.parametrize("schema", [s for s in COMPILED if s[1] != "SequenceMap"], ids=named)
def test_every_function_is_right_expanded(schema: Schema, monkeypatch: pytest.MonkeyPatch):
    meaning, expanded = vars(Specialiser)["_meaning"], list[str]()

    def expand(walker: Specialiser, node: BodyNode) -> Any:
        if (node.domain, node.proto.op_type) == schema[:2] and not node.scope.attributes:
            expanded.append(node.name)
            return vars(Specialiser)["_schema_function"].__get__(walker)
        return meaning(walker, node)

    monkeypatch.setattr(Specialiser, "_meaning", expand)
    check(schema)
    assert expanded


@pytest.mark.parametrize("schema", [s for s in FUNCTIONS if s[1] in RANDOM], ids=named)
def test_random_functions_say_why_they_are_refused(schema: Schema):
    for model, _ in models_of(schema):
        with pytest.raises(UnsupportedOperatorError, match="it draws random numbers"):
            import_model(model)
