"""The operator table agrees with onnx's schemas."""

from typing import Any

import onnx
import pytest
from onnx.helper import get_attribute_value

from compiler.frontend.rules.contrib.signatures import SIGNATURES
from compiler.net.operators import (
    FLOAT8_CONTRACTIONS,
    FOURIER,
    KEPT_BOXES,
    KINDS,
    NONZERO_POSITIONS,
    OPERATORS,
    PARTIAL_RANGES,
    POSITIONS,
    RECURRENCE,
    SCATTER_ORDER,
    SEGMENT_REDUCE,
    STRUCTURAL_INPUTS,
)
from compiler.net.operators.canonical import onnx_entry
from compiler.tensors.dtypes import ELEMENT_BYTES, FLOAT8

OPSET = 23
RESOLVED_BY_REWRITING = {
    *(("ConvTranspose", "output_shape"), ("ConvTranspose", "auto_pad")),
    ("MaxPool", "storage_order"),
}
OF_NO_SCHEMA = {
    ("ConvTranspose", "finite"),
    ("Cast", "round_mode"),
    ("QuantizeLinear", "of_range"),
}
"""Attributes that rewriting adds, or that opset 24 has for types that are folded."""

OWN = {
    *FLOAT8_CONTRACTIONS,
    FOURIER,
    KEPT_BOXES,
    NONZERO_POSITIONS,
    PARTIAL_RANGES,
    POSITIONS,
    RECURRENCE,
    SCATTER_ORDER,
    SEGMENT_REDUCE,
}
CONTRIB = [name for name, entry in OPERATORS.items() if entry.domain == "com.microsoft"]
ONNX_OPERATORS = sorted(OPERATORS.keys() - CONTRIB - OWN)
CAST_FIRST = {"IsInf", "IsNaN"}
"""Operators on floats of a byte by way of float32."""

OPTIONS = {"Optional": "?", "Variadic": "*"}


def _name(member: Any) -> str:
    """The name of a member of one of onnx's enumerations, which their types leave out."""
    return member.name


FOUR_BITS = {"int4", "uint4"}
"""Dtypes of constants alone, which a DequantizeLinear keeps until it is lowered."""


def dtypes(formal: onnx.defs.OpSchema.FormalParameter) -> set[str]:
    """The dtype names that a schema allows, of those that kernels support."""
    names = {"tensor(float)": "float32", "tensor(double)": "float64"}
    names |= {f"tensor({name.replace('_', '')})": name for name in FLOAT8}
    found = {names.get(t, t.removeprefix("tensor(").removesuffix(")")) for t in formal.types}
    return found & set(ELEMENT_BYTES)


@pytest.mark.parametrize("op_type", ONNX_OPERATORS)
def test_an_entry_says_what_the_schema_says(op_type: str):
    entry, schema = onnx_entry(op_type), onnx.defs.get_schema(op_type, OPSET, "")
    assert len(entry.inputs) == len(schema.inputs)
    for i, (slot, formal) in enumerate(zip(entry.inputs, schema.inputs, strict=True)):
        assert slot.option == OPTIONS.get(_name(formal.option), "")
        allowed = dtypes(formal) - (FLOAT8 if op_type in CAST_FIRST else set())
        assert entry.dtypes(i) - FOUR_BITS == allowed
    assert len(entry.outputs) == len(schema.outputs)
    for slot, formal in zip(entry.outputs, schema.outputs, strict=True):
        assert slot.option == OPTIONS.get(_name(formal.option), "")
        if slot.type != "U":
            assert entry.types.get(slot.type, {slot.type}) == dtypes(formal)


@pytest.mark.parametrize("op_type", ONNX_OPERATORS)
def test_attributes_are_those_of_the_schema(op_type: str):
    entry, schema = onnx_entry(op_type), onnx.defs.get_schema(op_type, OPSET, "")
    resolved = {name for other, name in RESOLVED_BY_REWRITING if other == op_type}
    added = {name for other, name in OF_NO_SCHEMA if other == op_type}
    assert set(entry.attributes) - added | resolved == set(schema.attributes)
    for name, attribute in entry.attributes.items():
        if name in added:
            continue
        formal = schema.attributes[name]
        default: Any = (
            get_attribute_value(formal.default_value) if formal.default_value.name else None
        )
        if isinstance(default, float):
            default = pytest.approx(default)
        elif formal.default_value.ints:
            default = tuple(formal.default_value.ints)
        text = default.decode() if isinstance(default, bytes) else default
        shapes = [(2, 6, 4, 5), (6, 6, 3, 3)]
        if callable(attribute.default) and default is not None:
            assert attribute.default_for(shapes) == attribute.from_front(text, shapes)
        elif not callable(attribute.default):
            assert attribute.default == text
        assert attribute.required == formal.required
        assert attribute.kind == _name(formal.type).lower()


@pytest.mark.parametrize("op_type", CONTRIB)
def test_entries_of_other_domains_are_parts_of_their_signatures(op_type: str):
    entry, signature = OPERATORS[op_type], SIGNATURES[OPERATORS[op_type].domain, op_type]
    assert set(entry.attributes) <= set(signature.attributes)
    for index, slot in enumerate(entry.inputs):
        assert slot.option == signature.inputs[index].option
        assert entry.dtypes(index) <= signature.dtypes(index)


@pytest.mark.parametrize(
    ("op_type", "name", "default"),
    [
        ("Conv", "kernel_shape", [3, 1]),
        ("Conv", "strides", [1, 1]),
        ("ConvTranspose", "dilations", [1, 1]),
        ("ConvTranspose", "output_padding", [0, 0]),
        ("MaxPool", "pads", [0] * 4),
        ("OneHot", "axis", 4),
        ("Resize", "axes", [0, 1, 2, 3]),
        ("Softmax", "axis", 3),
        ("Transpose", "perm", [3, 2, 1, 0]),
    ],
)
def test_defaults_follow_from_shapes(op_type: str, name: str, default: Any):
    shapes = [(2, 6, 4, 5), (6, 6, 3, 1)]
    assert OPERATORS[op_type].complete({}, shapes)[name] == default


def test_structural_inputs_and_kinds_are_views_of_the_table():
    assert KINDS == {name: entry.kind for name, entry in OPERATORS.items()}
    assert STRUCTURAL_INPUTS == {"OneHot": (1,)}
