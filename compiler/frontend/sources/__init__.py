"""Checks of a model's nodes before they are rewritten: operators of every opset and form.

An operator of the table is converted to its newest form and checked against the table; others,
which rewriting rules turn into operators of the table, have checks here.
"""

from collections.abc import Mapping

from compiler.frontend.node import SOURCES, ModelNode
from compiler.frontend.sources import others, quantised, recurrent, sampling
from compiler.frontend.sources.attributes import SOURCE_ATTRIBUTES
from compiler.frontend.sources.forms import newest_form
from compiler.net.attributes import Attribute, Mismatch
from compiler.net.building.builder import is_known
from compiler.net.graph import Inputs
from compiler.net.operators import OPERATORS
from compiler.net.operators.canonical import deciding_inputs, infer_onnx, onnx_entry
from compiler.net.operators.indices import check_constant_indices
from compiler.net.spec import KnownTensor, OpSpec

__all__ = [
    "SOURCES",
    "check_source",
    "check_source_attributes",
    "others",
    "quantised",
    "recurrent",
    "sampling",
]


def check_source(node: ModelNode) -> list[KnownTensor] | None:
    """The types of a node's results, or None if only its rewritten form determines them.

    Raises Mismatch for an invalid node, ShapeMismatch if its shapes do not fit.
    """
    check = SOURCES.get(node.op_type)
    if check is not None:
        check(node)
        check_constant_indices(node.op_type, node.inputs, node.__getitem__)
    form = newest_form(node)
    if form is None:
        return None
    form = form.with_operands()
    entry = onnx_entry(form.op_type)
    if not (_fits_types(entry, form.inputs) and _is_complete(form)):
        return None
    known = {name: value for name, value in form.attributes.items() if name in entry.attributes}
    return infer_onnx(form.op_type, form.inputs, known, len(node.used))


def check_source_attributes(node: ModelNode) -> None:
    """Raise Mismatch for an attribute with a value that it cannot have."""
    known: Mapping[str, Attribute] = {}
    if node.op_type in OPERATORS:
        known = onnx_entry(node.op_type).attributes
    special = SOURCE_ATTRIBUTES.get(node.op_type, {})
    for name, value in node.attributes.items():
        attribute = special.get(name) or known.get(name)
        if attribute is not None:
            attribute.check(name, value)
    padded = "auto_pad" in node.attributes and node["auto_pad"] not in ("NOTSET", "")
    if "Conv" in node.op_type and padded and node.attributes.get("pads"):
        raise Mismatch("it has both auto_pad and pads")


def _fits_types(entry: OpSpec, inputs: Inputs) -> bool:
    """Whether the table has all dtypes; nodes of others are folded or reported as unsupported."""
    return all(value is None or value.dtype in entry.dtypes(i) for i, value in enumerate(inputs))


def _is_complete(node: ModelNode) -> bool:
    """Whether all inputs that must be constants are constant."""
    constant = deciding_inputs(node.op_type) or OPERATORS[node.op_type].structural
    return is_known([node.input(index) for index in constant])
