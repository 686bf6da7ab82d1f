"""The maps of a node."""

from collections.abc import Sequence

from compiler.net.maps import Maps, Shape
from compiler.net.node import TypedNode
from compiler.net.operators import OPERATORS


def is_movement(op_type: str) -> bool:
    """Whether an operator only moves elements, and says where by maps."""
    spec = OPERATORS.get(op_type)
    return spec is not None and spec.maps is not None


MOVEMENT = frozenset(filter(is_movement, OPERATORS))
"""The operators of this package that only move elements."""


def maps_of(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    """The maps of each result, whose shapes are given; none of an operator that computes.

    Raises Mismatch if an input that decides them is not known.
    """
    spec = OPERATORS.get(node.type)
    return () if spec is None or spec.maps is None else spec.maps(node, shapes)
