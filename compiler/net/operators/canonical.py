"""The canonical form of a node: all attributes are there, and axes count from the front.

A dump leaves out an attribute that has its default; readers get every one. The importer brings
nodes into this form, and the verifier of the IR refuses others.
"""

from collections.abc import Mapping
from typing import Any

from compiler.net.attributes import Shapes
from compiler.net.operators import OPERATORS, Mismatch


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
    """Raise Mismatch for axes that count from the end, and for pads that are not explicit.

    Types, lengths and ranges are checked where shapes are inferred.
    """
    operator = OPERATORS[op_type]
    for name, value in attributes.items():
        if operator.attributes[name].rank is None:
            continue
        if any(axis < 0 for axis in ([value] if isinstance(value, int) else value)):
            raise Mismatch(f"its attribute {name!r} is {value}: axes count from the front")
    if attributes.get("auto_pad", "NOTSET") != "NOTSET":
        raise Mismatch(f"its auto_pad is {attributes['auto_pad']!r}: it must have explicit pads")
