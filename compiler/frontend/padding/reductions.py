"""Padding under reductions, contractions and normalisations."""

from collections.abc import Callable, Mapping, Sequence

from compiler.frontend.padding.axes import ONE, Axes, Axis
from compiler.frontend.padding.effects import (
    HIGHEST,
    LOWEST,
    Effect,
    Mask,
    MeanCount,
    Need,
    Rule,
    broadcast_axes,
    expect_single,
    expect_whole,
    fill_of,
    unified,
)
from compiler.frontend.padding.pairs import OperatorPair

_NEUTRAL: Mapping[str, float] = {
    **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), 0.0),
    **dict.fromkeys(("ReduceLogSum", "ReduceMean"), 0.0),
    **dict.fromkeys(("ReduceMax", "ReduceLogSumExp", "ArgMax", "Softmax", "LogSoftmax"), LOWEST),
    **dict.fromkeys(("ReduceMin", "ArgMin"), HIGHEST),
    "ReduceProd": 1.0,
    "LpNormalization": 0.0,
}
"""The neutral element of each reduction, which fills padding."""

_ALONG = ("Softmax", "LogSoftmax", "LpNormalization")
"""Operators along an axis that keep its elements."""


def _reduction(pair: OperatorPair) -> Effect:
    data, op_type = pair.operand(0), pair.operator.op_type
    axes = _reduced_axes(pair)
    needs: list[Need] = [Mask(0, a, _NEUTRAL[op_type]) for a in axes if a in data.open]
    if op_type == "ReduceMean":
        needs += _counts(pair, axes)
    if op_type in _ALONG:
        return Effect([data.axes], needs)
    return Effect([_reduced(data.axes, axes, pair.operator["keepdims"])], needs)


def _counts(pair: OperatorPair, axes: Sequence[int]) -> list[Need]:
    """The counts of a mean along some axes."""
    data = pair.operand(0)
    found: list[Need] = [MeanCount(axis) for axis in axes if axis in data.open]
    if found and "float" not in data.large.dtype:
        raise pair.refusal("is a mean of integers", *(data.axes[axis] for axis in axes))
    return found


def _extremum(pair: OperatorPair) -> Effect:
    """The index of the first extremum, which comes before padding that is as large."""
    for axis in _reduced_axes(pair):
        expect_single(pair, pair.operand(0).axes[axis])
        if pair.operator["select_last_index"]:
            expect_whole(pair, [axis])
    return _reduction(pair)


def _reduced(axes: Axes, without: Sequence[int], keep: object) -> Axes:
    if keep:
        return tuple(ONE if i in without else axis for i, axis in enumerate(axes))
    return tuple(axis for i, axis in enumerate(axes) if i not in without)


def _reduced_axes(pair: OperatorPair) -> list[int]:
    """The axes of a reduction or a softmax."""
    if pair.operator.op_type in (*_ALONG, "ArgMax", "ArgMin"):
        return [pair.operator["axis"]]
    return pair.operator["axes"]


def _normalisation(axes: Callable[[OperatorPair], Sequence[int]]) -> Rule:
    """The rule of operators that need some whole axes and keep all."""

    def rule(pair: OperatorPair) -> Effect:
        whole = axes(pair)
        expect_whole(pair, whole)
        data = pair.operand(0).axes
        return Effect([data, *[_reduced(data, whole, True)] * (len(pair.outputs) - 1)])

    return rule


def _trailing(pair: OperatorPair) -> Sequence[int]:
    rank = pair.operand(0).large.rank
    return range(pair.operator["axis"], rank)


def _all_but_batch(pair: OperatorPair) -> Sequence[int]:
    return range(1, pair.operand(0).large.rank)


def _matmul(pair: OperatorPair) -> Effect:
    left, right = pair.operand(0).axes, pair.operand(1).axes
    columns = right[-1:] if len(right) > 1 else ()
    inner = max(len(right) - 2, 0)
    batch = broadcast_axes(pair, left[:-2], right[:-2])
    axes = (*batch, *left[-2:-1], *columns)
    return Effect([axes], _contracted(pair, (len(left) - 1, inner)))


def _gemm(pair: OperatorPair) -> Effect:
    addend = pair.given(2)
    left = (1, 0) if pair.operator["transA"] else (0, 1)
    right = (1, 0) if pair.operator["transB"] else (0, 1)
    axes = pair.operand(0).axes[left[0]], pair.operand(1).axes[right[1]]
    needs = _contracted(pair, (left[1], right[0]))
    return Effect([axes if addend is None else broadcast_axes(pair, axes, addend.axes)], needs)


def _contracted(pair: OperatorPair, numbers: tuple[int, int]) -> list[Need]:
    """The masks of the axis of two operands that an operator contracts."""
    inner = [pair.operand(index).axes[axis] for index, axis in enumerate(numbers)]
    if not unified(pair, *inner).open:
        return []
    return [
        Mask(
            index,
            axis,
            fill_of(pair, 2 + index) if pair.operator.op_type == "MatMulInteger" else 0.0,
        )
        for index, axis in enumerate(numbers)
    ]


def _rows(pair: OperatorPair) -> Effect:
    """A MatMul with a packed weight, by rows."""
    data = pair.operand(0)
    expect_whole(pair, [data.large.rank - 1])
    return Effect([(*data.axes[:-1], pair.output.axes[-1])])


def _einsum(pair: OperatorPair) -> Effect:
    """An Einsum without an ellipsis, whose operands are masked along letters that are summed."""
    equation = str(pair.operator.attributes["equation"]).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    operands = [operand for operand in pair.inputs if operand is not None]
    if "." in equation or not arrow:
        raise pair.refusal("has an equation with an ellipsis, or without a result")
    letters = [*zip(terms.split(","), operands, strict=True)]
    found: dict[str, Axis] = {}
    for term, operand in letters:
        for letter, axis in zip(term, operand.axes, strict=True):
            found[letter] = unified(pair, found.get(letter, ONE), axis)
    needs = [
        Mask(index, axis, 0.0)
        for index, (term, operand) in enumerate(letters)
        for axis, letter in enumerate(term)
        if letter not in result and operand.axes[axis].open
    ]
    return Effect([tuple(found[letter] for letter in result)], needs)


REDUCTION_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_NEUTRAL, _reduction),
    **dict.fromkeys(("ArgMax", "ArgMin"), _extremum),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _normalisation(_trailing)),
    **dict.fromkeys(
        ("InstanceNormalization", "GroupNormalization"), _normalisation(_all_but_batch)
    ),
    "MeanVarianceNormalization": _normalisation(_reduced_axes),
    "LRN": _normalisation(lambda pair: [1]),
    **dict.fromkeys(("MatMul", "MatMulInteger", "MatMulFloat8"), _matmul),
    "MatMulNBits": _rows,
    "Gemm": _gemm,
    "Einsum": _einsum,
}
"""The rules of this family, by operator."""
