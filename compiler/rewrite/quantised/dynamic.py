"""Contractions of integers of a run's own range as those of the floats that were quantised.

`Cast(MatMulInteger(Quantize(x), w)) * (x_scale * w_scale)` is, but for rounding x, the MatMul of x
and the numbers of the constant weights, which are those of the quantised model.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from compiler.net.building.quantised import OF_RANGE
from compiler.net.graph import Value, constant
from compiler.net.node import Node

_FLOATS_OF = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
"""The contractions of floats for those of integers."""


def floats_of_range(
    operator: Node[Value], makers: Mapping[Value, Node[Value]]
) -> Node[Value] | None:
    """The contraction of floats instead of a Mul that scales the sums of one of integers."""
    for sums, scale in (operator.inputs, operator.inputs[::-1]):
        cast = None if sums is None else makers.get(sums)
        if cast is None or cast.type != "Cast" or cast.output.dtype != "float32":
            continue
        contraction = makers.get(cast.operand(0))
        if contraction is not None and contraction.type in _FLOATS_OF and scale is not None:
            return _of_floats(contraction, scale, makers)
    return None


def _of_floats(
    contraction: Node[Value], scale: Value, makers: Mapping[Value, Node[Value]]
) -> Node[Value] | None:
    """The contraction of the floats that were quantised by their own range, so none is clipped."""
    origin = makers.get(contraction.operand(0))
    weights = contraction.operand(1)
    if origin is None or not origin[OF_RANGE] or weights.array is None:
        return None
    number, own_scale, own_zero = origin.inputs
    zeros = [*contraction.inputs, None, None][2:4]
    factor = _factor(own_scale, scale, makers)
    if zeros[0] is not own_zero or zeros[1] is not None or factor is None:
        return None
    image = contraction.type == "ConvInteger"
    axis, following = (0, weights.rank - 2) if image else (weights.rank - 1, 0)
    factor = _along(factor, weights, axis, following)
    if factor is None:
        return None
    numbers = constant(contraction.node, weights.content.astype("float32") * factor)
    floats = replace(contraction, type=_FLOATS_OF[contraction.type])
    return replace(floats, inputs=[number, numbers])


def _factor(
    own: Value | None, scale: Value, makers: Mapping[Value, Node[Value]]
) -> np.ndarray | None:
    """The constants by which the scale of the quantised numbers is multiplied."""
    if scale is own:
        return np.ones((), "float32")
    maker = makers.get(scale)
    if maker is None or maker.type != "Mul" or own not in maker.inputs:
        return None
    other = next((value for value in maker.inputs if value is not own), None)
    return None if other is None else other.array


def _along(factor: np.ndarray, weights: Value, axis: int, following: int) -> np.ndarray | None:
    """One factor, or those of the slices of an axis of weights; None for others.

    In the result `following` axes come after the one that has them.
    """
    if factor.size == 1:
        return factor.reshape(())
    count = weights.shape[axis]
    if factor.shape[-1 - following :] != (count, *[1] * following) or prod(factor.shape) != count:
        return None
    return factor.reshape([-1, *[1] * (weights.rank - 1 - axis)])
