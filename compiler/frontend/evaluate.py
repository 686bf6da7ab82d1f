"""Evaluation of operators with known inputs, and type inference of others."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, helper, numpy_helper, shape_inference

from compiler.frontend.interpreter import evaluate_node
from compiler.frontend.unsupported import Contradiction, Unsupported
from compiler.ir.values import Value as AttributeValue
from compiler.net.graph import Attributes, Inputs, Value
from compiler.net.operators import OPERATORS, STRUCTURAL_INPUTS
from compiler.net.operators.canonical import deciding_inputs
from compiler.tensors.dtypes import element_type
from compiler.tensors.extents import Undecided
from compiler.tensors.substitution import array_at_hints, shape_at_hints

_LARGEST_SHAPE_DATA = 4096


@cache
def schema_of(op_type: str, opset: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """The schema of an operator at an opset, or None if there is none."""
    if not onnx.defs.has(op_type, opset, domain):
        return None
    return onnx.defs.get_schema(op_type, opset, domain)


def known_schema(op_type: str, opset: int, domain: str = "") -> onnx.defs.OpSchema:
    """The schema of an operator that has one."""
    schema = schema_of(op_type, opset, domain)
    assert schema is not None, op_type
    return schema


@cache
def inexact_defaults(op_type: str, opset: int) -> Mapping[str, float]:
    """The defaults of attributes that float32 rounds: 0.01 is the float32 next to it."""
    schema: Any = known_schema(op_type, opset)
    defaults = ((n, a.default_value) for n, a in schema.attributes.items())
    floats = {n: d.f for n, d in defaults if d.type == onnx.AttributeProto.FLOAT}
    return {n: f for n, f in floats.items() if f != float(f"{f:.6g}")}


@cache
def default_of(op_type: str, opset: int, name: str) -> Any:
    """The default of an attribute by an operator's schema at an opset; None if it has none.

    An attribute of other schemas has the default of the newest one that has it: attributes that are
    added keep the meaning of older models. An operator of this package has the table's defaults.
    """
    newest = onnx.defs.onnx_opset_version()
    for version in (opset, *range(newest, 0, -1)):
        schema: Any = schema_of(op_type, version)
        if schema is not None and name in schema.attributes:
            default = schema.attributes[name].default_value
            value = helper.get_attribute_value(default) if default.name else None
            return value.decode() if isinstance(value, bytes) else value
    entry = OPERATORS.get(op_type)
    known = entry.attributes.get(name) if entry is not None else None
    return known.default if known is not None else None


@cache
def input_types(op_type: str, opset: int, index: int, domain: str = "") -> frozenset[str]:
    """The types of an input in schema notation, in any opset from this one on."""
    newest = onnx.defs.onnx_opset_version() if not domain else onnx.defs.onnx_ml_opset_version()
    schemas = {schema_of(op_type, version, domain) for version in (opset, newest)}
    formals = [schema.inputs for schema in schemas if schema is not None and schema.inputs]
    return frozenset(type for f in formals for type in f[min(index, len(f) - 1)].types)


@cache
def _dtype_name(element: int) -> str:
    if element == onnx.TensorProto.STRING:
        return "str_"
    if element not in onnx.TensorProto.DataType.values():
        return f"type {element}"
    return str(helper.tensor_dtype_to_np_dtype(element))


def dtype_name(element: int) -> str:
    """The dtype name of an ONNX element type, `str_` for strings; empty if undefined."""
    return _dtype_name(element) if element else ""


@cache
def onnx_type(dtype: str) -> str:
    """The tensor type of a dtype in schema notation, such as `tensor(float)`."""
    return f"tensor({onnx.TensorProto.DataType.Name(element_type(dtype)).lower()})"


def make_node(
    op_type: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Attributes,
    domain: str = "",
) -> onnx.NodeProto:
    """A node of Python attribute values."""
    node = helper.make_node(op_type, inputs, outputs, domain=domain)
    value: AttributeValue | onnx.TensorProto
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        empty = isinstance(value, list) and not value
        kind = onnx.AttributeProto.INTS if empty else None
        node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    return node


def type_proto(value: Value) -> TypeProto:
    """The ONNX type of a value, for the example sizes."""
    return helper.make_tensor_type_proto(element_type(value.dtype), shape_at_hints(value.shape))


def _known_data(op_type: str, names: list[str], inputs: Inputs) -> dict[str, onnx.TensorProto]:
    return {
        names[i]: numpy_helper.from_array(np.ascontiguousarray(array_at_hints(value.array)))
        for i in deciding_inputs(op_type) or STRUCTURAL_INPUTS.get(op_type, ())
        if i < len(inputs)
        and (value := inputs[i]) is not None
        and value.array is not None
        and value.array.size <= _LARGEST_SHAPE_DATA
    }


def infer_types(
    op_type: str, inputs: Inputs, attributes: Attributes, outputs: Sequence[str], opset: int
) -> list[TypeProto]:
    """The types of the outputs, as far as the schema's inference determines them.

    Raises Contradiction if the inputs do not fit the operator.
    """
    schema = known_schema(op_type, opset)
    names = ["" if value is None else f"i{i}" for i, value in enumerate(inputs)]
    node = make_node(op_type, names, outputs, attributes)
    types = {n: type_proto(v) for n, v in zip(names, inputs, strict=True) if v is not None}
    data = _known_data(op_type, names, inputs)
    imports = [helper.make_opsetid("", opset)]
    try:
        inferred = shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=imports, ir_version=10
        )
    except Exception as error:  # onnx raises InferenceError, RuntimeError and its checker's errors
        raise Contradiction(str(error).splitlines()[0]) from error
    return [inferred.get(name, TypeProto()) if name else TypeProto() for name in outputs]


def check_types(
    op_type: str, inputs: Inputs, attributes: Attributes, outputs: Sequence[str], opset: int
) -> list[TypeProto]:
    """The types of an operator on constants, as far as they are known.

    Raises Contradiction if the constants do not fit it in any opset from this one on.
    """
    try:
        return infer_types(op_type, inputs, attributes, outputs, opset)
    except Contradiction:  # newer opsets take more types
        newest = onnx.defs.onnx_opset_version()
        return infer_types(op_type, inputs, attributes, outputs, newest)


def evaluate(
    op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
) -> list[np.ndarray | None]:
    """The outputs of an operator of the default domain whose inputs are known and fit it.

    Raises ValueError or IndexError if they do not, Unsupported if it takes no such inputs, and
    Undecided if some elements depend on symbols.
    """
    if any(value is not None and value.symbolic for value in inputs):
        raise Undecided(f"{op_type} is not computed on sizes")
    arrays = [None if value is None else value.array for value in inputs]
    try:
        return evaluate_node(op_type, arrays, attributes, used)
    except (TypeError, KeyError) as error:
        reason = f"it cannot be evaluated on constants of these types ({error})"
        raise Unsupported(reason, "compute its result before exporting the model") from error
