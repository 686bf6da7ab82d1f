"""The maps of a use of an operator."""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.net.maps import Maps, Shape
from compiler.net.operators import OPERATORS
from compiler.net.spec import OperatorInput, Use

MOVEMENT = frozenset(name for name, spec in OPERATORS.items() if spec.maps is not None)
"""The operators that only move elements, and say where by maps."""


def maps_of(
    op_type: str,
    inputs: Sequence[OperatorInput | None],
    attributes: Mapping[str, Any],
    shapes: Sequence[Shape],
) -> Maps:
    """The maps of each result, whose shapes are given; none of an operator that computes.

    Raises Mismatch if an input that decides them is not known.
    """
    spec = OPERATORS.get(op_type)
    if spec is None or spec.maps is None:
        return ()
    return spec.maps(Use(op_type, spec, inputs, attributes, len(shapes)), shapes)
