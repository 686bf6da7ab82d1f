"""The axes along which each operator must not read padding, and the values that replace it.

A rule returns the masks that its operands need, or raises CannotPad.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.frontend.graph import Value, axis_of
from compiler.frontend.padding.pairs import CannotPad, OperatorPair, Pair
from compiler.frontend.padding.views import keeps_box
from compiler.ir.operators import KINDS, RECURRENCE, Kind
from compiler.ir.values import numpy_dtype


@dataclass(frozen=True, slots=True)
class MaskNeed:
    """An operand whose padding along an axis must be a neutral element."""

    index: int
    axis: int
    fill: float


PaddingRule = Callable[[OperatorPair], list[MaskNeed]]

_LOWEST, _HIGHEST = -np.inf, np.inf
_NEUTRAL: Mapping[str, float] = {
    **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), 0.0),
    **dict.fromkeys(("ReduceMax", "ReduceLogSumExp", "ArgMax", "Softmax", "LogSoftmax"), _LOWEST),
    **dict.fromkeys(("ReduceMin", "ArgMin"), _HIGHEST),
    "ReduceProd": 1.0,
}
"""The neutral element of each reduction, which fills padding."""

_AFTER_AXIS = ("LayerNormalization", "RMSNormalization")
"""Normalisations over an axis and all after it."""


def masks_of(pair: OperatorPair) -> list[MaskNeed]:
    """The masks that an operator's operands need; raises CannotPad if none help."""
    used = [*pair.inputs, *pair.outputs]
    if not any(p is not None and p.padded for p in used):
        return []
    op_type = pair.operator.op_type
    if op_type in _RULES:
        return _RULES[op_type](pair)
    if KINDS[op_type] is Kind.ELEMENTWISE:
        return []
    if KINDS[op_type] is Kind.VIEW:
        return _view(pair)
    raise CannotPad(f"{pair.label} cannot be padded")


def _view(pair: OperatorPair) -> list[MaskNeed]:
    before, after = pair.operand(0), pair.output
    large, small = (
        (before.large.shape, after.large.shape),
        (before.small.shape, after.small.shape),
    )
    if not keeps_box(large, small):
        raise CannotPad(f"{pair.label} mixes padding with elements")
    return []


def _anything(pair: OperatorPair) -> list[MaskNeed]:
    """No mask: each element of the result depends on elements at its own index."""
    return []


def _matmul(pair: OperatorPair) -> list[MaskNeed]:
    left, right = pair.operand(0), pair.operand(1)
    axes = left.large.rank - 1, max(right.large.rank - 2, 0)
    return _contracted((left, right), axes)


def _gemm(pair: OperatorPair) -> list[MaskNeed]:
    attributes = pair.operator.attributes
    axes = 0 if attributes.get("transA") else 1, 1 if attributes.get("transB") else 0
    return _contracted((pair.operand(0), pair.operand(1)), axes)


def _contracted(pairs: Sequence[Pair], axes: Sequence[int]) -> list[MaskNeed]:
    padded = [axis in pair.padded for pair, axis in zip(pairs, axes, strict=True)]
    if not any(padded):
        return []
    return [MaskNeed(index, axis, 0.0) for index, axis in enumerate(axes)]


def _reduction(pair: OperatorPair) -> list[MaskNeed]:
    data, op_type = pair.operand(0), pair.operator.op_type
    axes = _reduced_axes(pair)
    return [MaskNeed(0, axis, _NEUTRAL[op_type]) for axis in axes if axis in data.padded]


def _reduced_axes(pair: OperatorPair) -> list[int]:
    """The axes of a reduction or a softmax."""
    attributes, rank = pair.operator.attributes, pair.operand(0).large.rank
    if pair.operator.op_type in ("Softmax", "LogSoftmax"):
        return [axis_of(int(attributes.get("axis", -1)), rank)]
    if pair.operator.op_type in ("ArgMax", "ArgMin"):
        return [axis_of(int(attributes.get("axis", 0)), rank)]
    given = pair.inputs[1] if len(pair.inputs) > 1 else None
    if given is None or not given.large.content.size:
        return [] if attributes.get("noop_with_empty_axes") else [*range(rank)]
    return [axis_of(int(axis), rank) for axis in given.large.content.reshape(-1)]


def _untouched(axes: Callable[[OperatorPair], Sequence[int]]) -> PaddingRule:
    """The rule of operators that need whole axes."""

    def rule(pair: OperatorPair) -> list[MaskNeed]:
        data = pair.operand(0)
        if set(axes(pair)) & set(data.padded):
            raise CannotPad(f"{pair.label} needs all of a padded axis")
        return []

    return rule


def _normalised(pair: OperatorPair) -> Sequence[int]:
    rank = pair.operand(0).large.rank
    return range(axis_of(int(pair.operator.attributes.get("axis", -1)), rank), rank)


def _concat(pair: OperatorPair) -> list[MaskNeed]:
    axis = axis_of(int(pair.operator.attributes["axis"]), pair.output.large.rank)
    if any(operand is not None and axis in operand.padded for operand in pair.inputs):
        raise CannotPad(f"{pair.label} concatenates a padded axis")
    return []


def _split(pair: OperatorPair) -> Sequence[int]:
    return [axis_of(int(pair.operator.attributes.get("axis", 0)), pair.operand(0).large.rank)]


def _slice(pair: OperatorPair) -> list[MaskNeed]:
    """A slice that begins at the same index from the front."""
    data = pair.operand(0)
    starts, _, axes, steps = (_integers(pair, index) for index in range(1, 5))
    small = [int(v) for v in pair.smaller.operand(1).content.reshape(-1)]
    for position, start in enumerate(starts):
        axis = axis_of(axes[position] if axes else position, data.large.rank)
        step = steps[position] if steps else 1
        if axis in data.padded and (start < 0 or step < 1 or small[position] != start):
            raise CannotPad(f"{pair.label} counts from the end of a padded axis")
    return []


def _integers(pair: OperatorPair, index: int) -> list[int]:
    value = pair.operator.inputs[index] if index < len(pair.operator.inputs) else None
    return [] if value is None else [int(v) for v in value.content.reshape(-1)]


def _gather(pair: OperatorPair) -> list[MaskNeed]:
    data, indices = pair.operand(0), pair.operand(1)
    axis = axis_of(int(pair.operator.attributes.get("axis", 0)), data.large.rank)
    counted = indices.large.array is None or bool((indices.small.content < 0).any())
    if axis in data.padded and counted:
        raise CannotPad(f"{pair.label} may count from the end of a padded axis")
    return []


def _cumulative(pair: OperatorPair) -> list[MaskNeed]:
    if pair.operator.attributes.get("reverse"):
        raise CannotPad(f"{pair.label} begins at the end of a padded axis")
    return []


def _recurrence(pair: OperatorPair) -> list[MaskNeed]:
    """Steps in order whose last states nobody reads; with lengths those are the sequences' own."""
    lengths = pair.inputs[3] if len(pair.inputs) > 3 else None
    forward = pair.operator.attributes.get("direction", "forward") == "forward"
    last = any(output is not None for output in pair.outputs[1:])
    if 0 in pair.operand(0).padded and lengths is None and (last or not forward):
        raise CannotPad(f"{pair.label} needs all of its steps")
    return []


def _batched(pair: OperatorPair) -> Sequence[int]:
    return range(1, pair.operand(0).large.rank)


_RULES: Mapping[str, PaddingRule] = {
    **dict.fromkeys(_NEUTRAL, _reduction),
    **dict.fromkeys(_AFTER_AXIS, _untouched(_normalised)),
    **dict.fromkeys(
        ("Conv", "ConvInteger", "ConvTranspose", "AveragePool", "MaxPool"), _untouched(_batched)
    ),
    **dict.fromkeys(("MatMul", "MatMulInteger"), _matmul),
    "Gemm": _gemm,
    "MatMulNBits": _untouched(lambda pair: [pair.operand(0).large.rank - 1]),
    "Transpose": _anything,
    "Concat": _concat,
    "Split": _untouched(_split),
    "Slice": _slice,
    "Gather": _gather,
    RECURRENCE: _recurrence,
    "Trilu": _anything,
    "CumSum": _cumulative,
}


def fill_value(value: Value, fill: float) -> Any:
    """A neutral element in a tensor's type: the type's limit for an infinity of integers."""
    dtype = np.dtype(numpy_dtype(value.dtype))
    if dtype.kind in "iu" and np.isinf(fill):
        limits = np.iinfo(dtype.name)
        return limits.min if fill < 0 else limits.max
    return fill
