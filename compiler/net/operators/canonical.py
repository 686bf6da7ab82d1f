"""The canonical form of a node: all attributes are there, and axes count from the front.

In place of the inputs that decide shapes in ONNX it has attributes. A dump leaves out an attribute
that has its default; readers get every one. The importer brings nodes into this form, and the
verifier of the IR refuses others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from compiler.net.attributes import Shape, Shapes
from compiler.net.node import Array, Node, OperatorInput, TypedNode
from compiler.net.operators import OPERATORS, Mismatch, infer
from compiler.net.spec import (
    InputT,
    KnownTensor,
    OpSpec,
    bind_types,
    check_attributes,
    check_count,
    known_tensors,
    to_infer,
)


def onnx_entry(op_type: str) -> OpSpec:
    """The entry of an operator with the inputs and attributes that ONNX has."""
    entry = OPERATORS[op_type]
    return entry if entry.onnx is None else _with_onnx_form(op_type)


@cache
def _with_onnx_form(op_type: str) -> OpSpec:
    entry = OPERATORS[op_type]
    assert entry.onnx is not None, op_type
    return replace(entry, inputs=entry.onnx.inputs, attributes=entry.onnx.attributes)


def is_onnx_form(op_type: str, attributes: Mapping[str, Any]) -> bool:
    """Whether a node has inputs that decide shapes, in place of attributes of these names."""
    entry = OPERATORS.get(op_type)
    if entry is None or entry.onnx is None:
        return False
    return not entry.decided <= attributes.keys()


def deciding_inputs(op_type: str) -> Mapping[int, str]:
    """The inputs that decide shapes in ONNX's form of an operator, by position."""
    entry = OPERATORS.get(op_type)
    return {} if entry is None or entry.onnx is None else entry.onnx.decides_shape


def _shapes(inputs: Sequence[OperatorInput | None]) -> Shapes:
    return [None if value is None else value.shape for value in inputs]


def canonical_node(
    op_type: str, inputs: Sequence[InputT | None], attributes: Mapping[str, Any], outputs: int = 1
) -> Node[InputT]:
    """A node in the canonical form, which it may have already, without defaults.

    Raises Mismatch for operands that do not fit ONNX's form; element types and attributes that the
    table does not have are not refused.
    """
    if not is_onnx_form(op_type, attributes):
        counted = from_front(op_type, attributes, _shapes(inputs))
        return Node(op_type, counted, inputs, to_infer(outputs))
    onnx = onnx_entry(op_type)
    form = OPERATORS[op_type].onnx
    assert form is not None
    check_count(onnx, inputs, outputs)
    counted = onnx.from_front(attributes, _shapes(inputs))
    decided = form.normalise(onnx.node(op_type, inputs, counted, outputs))
    rest = [value for i, value in enumerate(inputs) if i not in form.decides_shape]
    while rest and rest[-1] is None:
        rest.pop()
    same = {n: v for n, v in counted.items() if n in OPERATORS[op_type].attributes}
    return Node(op_type, {**same, **decided}, rest, to_infer(outputs))


def known_node(
    op_type: str,
    arrays: Sequence[Array | None],
    attributes: Mapping[str, Any],
    outputs: int = 1,
    entry: OpSpec | None = None,
) -> TypedNode:
    """A node of the table, or of another entry, on known inputs, from either form.

    Attributes that are floats are rounded to float32, which ONNX's are.
    """
    given = canonical_node(op_type, known_tensors(arrays), attributes, outputs)
    rounded = {
        name: float(np.float32(value)) if isinstance(value, float) else value
        for name, value in given.attributes.items()
    }
    return (entry or OPERATORS[op_type]).node(op_type, given.inputs, rounded, outputs)


def operations_of(
    op_type: str,
    arrays: Sequence[Array | None],
    attributes: Mapping[str, Any],
    results: Sequence[Shape],
    entry: OpSpec | None = None,
) -> int:
    """The operations of an operator of the table, or of another entry, on known inputs.

    0 where they grow no faster than operands and results; the `results` of operators without
    kernels may be left out.
    """
    work = (entry or OPERATORS[op_type]).facts.work
    if work is None:
        return 0
    return work(known_node(op_type, arrays, attributes, max(1, len(results)), entry), results)


def infer_onnx(
    op_type: str,
    inputs: Sequence[OperatorInput | None],
    attributes: Mapping[str, Any],
    outputs: int = 1,
) -> list[KnownTensor]:
    """The types of the results of a node in ONNX's form; raises Mismatch, as `infer`."""
    if is_onnx_form(op_type, attributes):
        check_attributes(onnx_entry(op_type), attributes)
        bind_types(onnx_entry(op_type), inputs)
    node = canonical_node(op_type, inputs, attributes, outputs)
    return infer(op_type, node.inputs, node.attributes, outputs)


def _as_operand(value: Any) -> Array:
    """An array, or integers as one."""
    return np.asarray(value, None if isinstance(value, np.ndarray) else np.int64)


def onnx_operands(
    op_type: str, inputs: Sequence[InputT | None], attributes: Mapping[str, Any], outputs: int = 1
) -> tuple[list[InputT | Array | None], dict[str, Any]]:
    """The inputs of ONNX's form of a node, arrays among them, and its attributes."""
    form = OPERATORS[op_type].onnx
    if form is None or is_onnx_form(op_type, attributes):
        return list(inputs), dict(attributes)
    written = dict(form.write(OPERATORS[op_type].node(op_type, inputs, attributes, outputs)))
    arrays = {
        position: _as_operand(written.pop(name))
        for position, name in form.decides_shape.items()
        if name in written
    }
    rest = list(inputs)
    operands = list[InputT | Array | None]()
    for position in range(max([*arrays, len(inputs) + len(form.decides_shape) - 1]) + 1):
        decides = position in form.decides_shape
        operands.append(arrays.get(position) if decides else rest.pop(0) if rest else None)
    while operands and operands[-1] is None:
        operands.pop()
    same = {n: v for n, v in attributes.items() if n in form.attributes}
    return operands, {**same, **written}


def from_front(op_type: str, attributes: Mapping[str, Any], shapes: Shapes) -> dict[str, Any]:
    """Attributes whose axes count from the front; those that are out of range stay.

    Inputs have these shapes. An operator that is not in the table keeps its attributes.
    """
    operator = OPERATORS.get(op_type)
    return dict(attributes) if operator is None else operator.from_front(attributes, shapes)


def complete_attributes(
    op_type: str, attributes: Mapping[str, Any], shapes: Shapes
) -> dict[str, Any]:
    """All attributes of a node whose inputs have these shapes, with axes from the front."""
    operator = OPERATORS.get(op_type)
    if operator is None or not operator.attributes:
        return dict(attributes)
    return operator.complete(operator.from_front(attributes, shapes), shapes)


def check_canonical(op_type: str, attributes: Mapping[str, Any]) -> None:
    """Raise Mismatch for inputs in place of attributes, axes from the end, and implicit pads.

    Types, lengths and ranges are checked where shapes are inferred.
    """
    operator = OPERATORS.get(op_type)
    if operator is None:
        return
    if is_onnx_form(op_type, attributes):
        names = ", ".join(sorted(operator.decided))
        raise Mismatch(
            f"its attributes {names} are missing, which are operands in ONNX: import the model"
            " again"
        )
    for name, value in attributes.items():
        if name not in operator.attributes or operator.attributes[name].rank is None:
            continue
        if any(axis < 0 for axis in ([value] if isinstance(value, int) else value)):
            raise Mismatch(f"its attribute {name!r} is {value}: axes count from the front")
    if attributes.get("auto_pad", "NOTSET") != "NOTSET":
        raise Mismatch(f"its auto_pad is {attributes['auto_pad']!r}: it must have explicit pads")
