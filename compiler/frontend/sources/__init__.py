"""Checks of a model's nodes before they are rewritten: operators of every opset and form.

An operator of the table is converted to its newest form and checked against the table; others,
which rewriting rules turn into operators of the table, have checks here.
"""

from collections.abc import Mapping, Sequence

from compiler.frontend.sources.attributes import SOURCE_ATTRIBUTES
from compiler.frontend.sources.forms import newest_form
from compiler.frontend.sources.others import OTHERS
from compiler.frontend.sources.quantised import QUANTISED
from compiler.frontend.sources.recurrent import RECURRENT
from compiler.frontend.sources.sampling import SAMPLING
from compiler.frontend.sources.source import Check, Source
from compiler.net.attributes import Attribute, Mismatch
from compiler.net.operators import OPERATORS
from compiler.net.operators.canonical import deciding_inputs, infer_onnx, onnx_entry
from compiler.net.operators.indices import check_constant_indices
from compiler.net.spec import KnownTensor, OperatorInput, OpSpec

__all__ = ["SOURCES", "Source", "check_source", "check_source_attributes"]

SOURCES: dict[str, Check] = {**RECURRENT, **QUANTISED, **SAMPLING, **OTHERS}
"""The checks of operators that are not in the table, or whose old forms are not."""


def check_source(source: Source) -> list[KnownTensor] | None:
    """The types of a node's results, or None if only its rewritten form determines them.

    Raises Mismatch for an invalid node, ShapeMismatch if its shapes do not fit.
    """
    check = SOURCES.get(source.op_type)
    if check is not None:
        check(source)
        check_constant_indices(source.op_type, source.inputs, source.__getitem__)
    form = newest_form(source)
    if form is None:
        return None
    op_type, inputs, attributes = form
    operator = onnx_entry(op_type)
    if not (_fits_types(operator, inputs) and _is_complete(op_type, inputs)):
        return None
    known = {name: value for name, value in attributes.items() if name in operator.attributes}
    return infer_onnx(op_type, inputs, known, source.outputs)


def check_source_attributes(source: Source) -> None:
    """Raise Mismatch for an attribute with a value that it cannot have."""
    known: Mapping[str, Attribute] = {}
    if source.op_type in OPERATORS:
        known = onnx_entry(source.op_type).attributes
    special = SOURCE_ATTRIBUTES.get(source.op_type, {})
    for name, value in source.attributes.items():
        attribute = special.get(name) or known.get(name)
        if attribute is not None:
            attribute.check(name, value)
    padded = "auto_pad" in source.attributes and source["auto_pad"] not in ("NOTSET", "")
    if "Conv" in source.op_type and padded and source.attributes.get("pads"):
        raise Mismatch("it has both auto_pad and pads")


def _fits_types(operator: OpSpec, inputs: Sequence[OperatorInput | None]) -> bool:
    """Whether the table has all dtypes; nodes of others are folded or reported as unsupported."""
    return all(value is None or value.dtype in operator.dtypes(i) for i, value in enumerate(inputs))


def _is_complete(op_type: str, inputs: Sequence[OperatorInput | None]) -> bool:
    """Whether all inputs that must be constants are constant."""
    constant = deciding_inputs(op_type) or OPERATORS[op_type].structural
    given = [inputs[i] for i in constant if i < len(inputs)]
    return all(value is None or value.array is not None for value in given)
