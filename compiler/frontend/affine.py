"""Folds products and sums with per-channel constants into the convolution before them.

`conv(x, w) * s + t` is `conv(x, w * s) + t` with `s` scaling each output channel of `w`.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from compiler.frontend.graph import Graph, Operator, Value, constant

_LINEAR = {"Conv", "ConvTranspose", "Gemm"}
_FLOATS = {"float16", "bfloat16", "float32", "float64"}


@dataclass(slots=True)
class Affine:
    """`scale` and `shift` of each channel (axis 1), pending on what `source` computes."""

    source: Operator
    scale: np.ndarray
    shift: np.ndarray


def _channels(value: Value | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """A constant as one number a channel, or None if it varies along another axis."""
    if value is None or value.array is None or value.rank > len(shape):
        return None
    full = (1,) * (len(shape) - value.rank) + value.shape
    if any(size != 1 for axis, size in enumerate(full) if axis != 1) or full[1] > shape[1]:
        return None
    array = np.asarray(value.array, np.float64).reshape(-1)
    return np.broadcast_to(array, shape[1])


def _step(operator: Operator) -> tuple[Value, np.ndarray, np.ndarray] | None:
    """The operand, scale and shift of a product, quotient, sum or difference by channel."""
    if operator.op_type not in ("Mul", "Div", "Add", "Sub") or None in operator.inputs:
        return None
    left, right = operator.inputs
    if left.array is not None and operator.op_type in ("Mul", "Add"):
        left, right = right, left
    output = operator.outputs[0]
    if left.dtype not in _FLOATS or left.shape != output.shape or left.rank < 2:
        return None
    numbers = _channels(right, left.shape)
    if numbers is None:
        return None
    one, zero = np.ones_like(numbers), np.zeros_like(numbers)
    match operator.op_type:
        case "Mul":
            return left, numbers, zero
        case "Div":
            return left, 1 / numbers, zero
        case "Add":
            return left, one, numbers
        case _:
            return left, one, -numbers


def _foldable(operator: Operator) -> bool:
    """Whether an operator is linear in constant weights (and a constant bias, if any)."""
    if operator.op_type not in _LINEAR:
        return False
    weight, *bias = operator.inputs[1:]
    known = weight is not None and weight.array is not None
    if operator.op_type == "Gemm":
        known = known and not operator.attributes.get("transA", 0)
    return known and all(b is None or b.array is not None for b in bias)


def _scaled(array: np.ndarray, scale: np.ndarray) -> np.ndarray:
    if (scale == 1).all():
        return array
    wide = array.astype(np.float32) if array.dtype.itemsize < 4 else array
    return (wide * scale.astype(wide.dtype)).astype(array.dtype, copy=False)


def _scaled_weight(operator: Operator, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    if operator.op_type == "Conv":
        return _scaled(weight, scale.reshape(-1, *[1] * (weight.ndim - 1)))
    if operator.op_type == "Gemm":
        return _scaled(weight, scale[:, None] if operator.attributes.get("transB", 0) else scale)
    groups, (inputs, each) = operator.attributes.get("group", 1), weight.shape[:2]
    grouped = weight.reshape(groups, inputs // groups, *weight.shape[1:])
    factors = scale.reshape(groups, 1, each, *[1] * (weight.ndim - 2))
    return _scaled(grouped, factors).reshape(weight.shape)


def _fold(affine: Affine) -> None:
    """Replace the source's weight and bias; a Gemm keeps alpha and loses beta."""
    operator = affine.source
    weight, bias = operator.inputs[1], (*operator.inputs, None)[2]
    scale, shift = affine.scale, affine.shift
    old = 0.0 if bias is None else np.asarray(bias.array, np.float64)
    if operator.op_type == "Gemm":
        old = old * operator.attributes.pop("beta", 1.0)
        scale_row, shift = scale, shift
        new_bias = old * scale_row + shift
    else:
        new_bias = old * scale + shift
    array = _scaled_weight(operator, weight.array, scale)
    if array is not weight.array:
        weight = constant(f"{weight.name}.folded", array)
    biased = constant(f"{operator.node}.bias", new_bias.astype(weight.array.dtype))
    operator.inputs = [operator.inputs[0], weight, biased]


def fold_affine(graph: Graph) -> None:
    """Fold chains of per-channel products and sums into their only producer, in place."""
    counts = Counter(graph.uses())
    pending: dict[Value, Affine] = {}
    kept: list[Operator] = []
    for operator in graph.operators:
        step = _step(operator)
        affine = pending.get(step[0]) if step else None
        if step and affine and counts[step[0]] == 1:
            value, scale, shift = step
            affine.scale, affine.shift = affine.scale * scale, affine.shift * scale + shift
            del pending[value]
            affine.source.outputs = operator.outputs
            pending[operator.outputs[0]] = affine
            continue
        kept.append(operator)
        if _foldable(operator):
            output = operator.outputs[0]
            channels = output.shape[1]
            pending[output] = Affine(operator, np.ones(channels), np.zeros(channels))
    for affine in pending.values():
        if (affine.scale != 1).any() or (affine.shift != 0).any():
            _fold(affine)
    graph.operators[:] = kept
