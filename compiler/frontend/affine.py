"""Folds products and sums with per-channel constants into the convolution before them.

`conv(x, w) * s + t` is `conv(x, w * s) + t` with `s` scaling each output channel of `w`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from compiler.frontend.graph import Graph, Operator, Value, constant
from compiler.ir.values import numpy_dtype

_LINEAR = {"Conv", "ConvTranspose", "Gemm"}
_FLOATS = {"float16", "bfloat16", "float32", "float64"}


@dataclass(slots=True)
class Affine:
    """`scale` and `shift` of each channel (axis 1) of what `source` computes from constants.

    Without a foldable source it stands for `steps`, operators on `base`.
    """

    scale: np.ndarray
    shift: np.ndarray
    source: Operator | None = None
    base: Value | None = None
    steps: list[Operator] = field(default_factory=list)

    @property
    def trivial(self) -> bool:
        """Whether it changes nothing."""
        return bool((self.scale == 1).all() and (self.shift == 0).all())


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
    if numbers is None or not np.isfinite(numbers).all():
        return None
    if operator.op_type == "Div" and not numbers.all():
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


def _fold(affine: Affine, operator: Operator) -> None:
    """Replace the source's weight and bias; a Gemm keeps alpha and loses beta."""
    weight, bias = operator.inputs[1], (*operator.inputs, None)[2]
    old = 0.0 if bias is None else np.asarray(bias.array, np.float64)
    if operator.op_type == "Gemm":
        old = old * operator.attributes.pop("beta", 1.0)
    array = _scaled_weight(operator, weight.array, affine.scale)
    new_bias = (old * affine.scale + affine.shift).astype(array.dtype)
    if array is not weight.array:
        weight = constant(f"{weight.name}.folded", array)
    biased = constant(f"{operator.node}.bias", new_bias)
    operator.inputs = [operator.inputs[0], weight, biased]


def _collapsed(affine: Affine) -> list[Operator]:
    """The steps as one product and one sum, if that is fewer operators."""
    first, last = affine.steps[0], affine.steps[-1]
    base, result = affine.base, last.outputs[0]
    parts = [
        (op_type, numbers)
        for op_type, numbers, neutral in (("Mul", affine.scale, 1), ("Add", affine.shift, 0))
        if (numbers != neutral).any()
    ] or [("Add", affine.shift)]
    if len(parts) >= len(affine.steps):
        return affine.steps
    operators, value = [], base
    for op_type, numbers in parts:
        node = last.node if op_type == parts[-1][0] else first.node
        numbers = numbers.reshape(-1, *[1] * (base.rank - 2)).astype(numpy_dtype(base.dtype))
        output = Value(f"{node}.{op_type}", base.dtype, base.shape)
        factor = constant(f"{node}.{op_type}.constant", numbers)
        operators.append(Operator(op_type, node, [value, factor], [output], {}))
        value = output
    operators[-1].outputs = [result]
    return operators


def fold_affine(graph: Graph) -> None:
    """Fold chains of per-channel products and sums into their only producer, in place."""
    counts = Counter(graph.uses())
    pending: dict[Value, Affine] = {}
    items: list[Operator | Affine] = []
    for operator in graph.operators:
        step = _step(operator)
        output = operator.outputs[0]
        if step is None:
            items.append(operator)
            if _foldable(operator):
                channels = output.shape[1]
                pending[output] = Affine(np.ones(channels), np.zeros(channels), operator)
            continue
        value, scale, shift = step
        affine = pending.pop(value, None) if counts[value] == 1 else None
        if affine is None:
            affine = Affine(np.ones_like(scale), np.zeros_like(shift), base=value)
            items.append(affine)
        _extend(affine, operator, scale, shift)
        pending[output] = affine
    graph.operators[:] = _settled(items, pending.values())


def _extend(affine: Affine, operator: Operator, scale: np.ndarray, shift: np.ndarray) -> None:
    affine.scale, affine.shift = affine.scale * scale, affine.shift * scale + shift
    affine.steps.append(operator)
    if affine.source is not None:
        affine.source.outputs = operator.outputs


def _settled(items: list[Operator | Affine], pending: Iterable[Affine]) -> Iterator[Operator]:
    """Operators with the chains folded into their sources, or collapsed where they have none."""
    for affine in pending:
        if affine.source is not None and affine.steps and not affine.trivial:
            _fold(affine, affine.source)
    for item in items:
        if isinstance(item, Operator):
            yield item
        else:
            yield from _collapsed(item)
