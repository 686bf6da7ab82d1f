"""Other operators of onnxruntime agree with its kernels, and the table with its schemas."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, helper

from compiler.errors import ModelError, UnsupportedOperatorError
from compiler.frontend.importing import import_model
from compiler.frontend.rules.contrib import CONTRIB
from compiler.frontend.rules.contrib.signatures import SIGNATURES
from compiler.net.spec import OpSpec
from compiler.tensors.dtypes import ELEMENT_BYTES
from tests.frontend.contrib.checks import check, model_of, normal, whole

runtime: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
SCHEMAS: dict[tuple[str, str], Any] = {
    (schema.domain, schema.name): schema for schema in runtime.get_all_operator_schema()
}
KINDS = {kind: kind.upper() for kind in ("int", "ints", "float", "floats", "string", "strings")}
OPTIONS = {"": "Single", "?": "Optional", "*": "Variadic"}
DTYPES = {"float": "float32", "double": "float64"}


def test_every_signature_has_a_rule():
    assert set(CONTRIB) == set(SIGNATURES)


@pytest.mark.parametrize("key", SIGNATURES, ids=lambda key: key[1])
def test_signatures_are_those_of_onnxruntime(key: tuple[str, str]):
    entry, schema = SIGNATURES[key], SCHEMAS[key]
    for slots, formals in ((entry.inputs, schema.inputs), (entry.outputs, schema.outputs)):
        assert [OPTIONS[s.option] for s in slots] == [f.option.name for f in formals]
    assert set(entry.attributes) == set(schema.attributes)
    for name, attribute in entry.attributes.items():
        given = schema.attributes[name]
        assert (KINDS[attribute.kind], attribute.required) == (given.type.name, given.required)
        proto = AttributeProto.FromString(given._default_value)
        default = helper.get_attribute_value(proto) if proto.name else None
        default = default.decode() if isinstance(default, bytes) else default
        ours = None if attribute.allowed and default is None else attribute.default
        assert ours == (pytest.approx(default) if isinstance(default, float) else default)


@pytest.mark.parametrize("key", SIGNATURES, ids=lambda key: key[1])
def test_signatures_take_onnxruntimes_types(key: tuple[str, str]):
    entry, schema = SIGNATURES[key], SCHEMAS[key]
    allowed = {
        constraint.type_param_str: {t[7:-1] for t in constraint.allowed_type_strs}
        for constraint in schema.type_constraints
    }
    for index, formal in enumerate(schema.inputs):
        names = allowed.get(formal.typeStr, {formal.typeStr[7:-1]})
        wanted = {DTYPES.get(name, name) for name in names}
        assert wanted & set(ELEMENT_BYTES) <= _types(entry, index), formal.name


def _types(entry: OpSpec, index: int) -> frozenset[str]:
    name = entry.inputs[index].type
    return entry.types.get(name, frozenset({name}))


def test_triangles():
    check("Trilu", [normal(2, 4, 5), np.array(1)], constants=[1], upper=0)
    check("Trilu", [normal(4, 5)])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_new_dimensions(axis: int):
    check("ExpandDims", [normal(2, 3), np.array(axis, np.int32)], constants=[1])


def test_axes_of_new_dimensions_are_checked():
    model = model_of("ExpandDims", [normal(2, 3), np.array(5, np.int32)], constants=[1])
    with pytest.raises(ModelError, match="its axis is 5"):
        import_model(model)


def test_gathers():
    check("GatherND", [normal(3, 4, 5), whole(0, 3, 2, 2, dtype="int64")])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pads(mode: str):
    operands = [normal(3, 4), np.array([1, 0, 2, 1]), np.float32(0.5).reshape(1)]
    check("Pad", operands if mode == "constant" else operands[:2], constants=[1], mode=mode)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_inverses(size: int):
    matrices = normal(5, 2, size, size)
    matrices[0, 0, 0, 0] = 0 if size > 1 else 1
    check("Inverse", [matrices], tolerance=1e-3)


def test_large_inverses_are_refused():
    with pytest.raises(UnsupportedOperatorError, match="larger than 4 x 4"):
        import_model(model_of("Inverse", [normal(5, 5)]))


def test_unknown_operators_are_refused_by_name():
    with pytest.raises(UnsupportedOperatorError, match=r"MoE 'node' .* no rule for it"):
        import_model(model_of("MoE", [normal(5, 5)]))
