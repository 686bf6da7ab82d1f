"""The maps of a use of an operator, and its results computed by them."""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.net.maps import Array, Maps, Shape, evaluate
from compiler.net.operators import OPERATORS
from compiler.net.spec import KnownTensor, OperatorInput, Use

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


def moved(
    op_type: str, arrays: Sequence[Array | None], attributes: Mapping[str, Any], outputs: int = 1
) -> list[Array]:
    """The results of an operator of `MOVEMENT` on arrays of any dtype, views where they can be.

    Raises Mismatch for arrays that do not fit, and IndexError for an index that is outside.
    """
    spec = OPERATORS[op_type]
    inputs = [None if a is None else KnownTensor(a.dtype.name, a.shape, a) for a in arrays]
    shapes = spec.rule(Use(op_type, spec, inputs, attributes, outputs))[:outputs]
    maps = maps_of(op_type, inputs, attributes, shapes)
    return [evaluate(own, shape, arrays) for own, shape in zip(maps, shapes, strict=True)]
