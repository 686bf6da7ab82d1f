"""Operators that reduce axes, or normalise along one."""

from compiler.net.operators.shapes import axes_in, axis_in, listed
from compiler.net.spec import (
    Attribute,
    Kind,
    OpSpec,
    Shape,
    ShapeMismatch,
    Use,
    flag,
    integer,
    integers,
    operator,
)
from compiler.tensors.dtypes import BOOL, FLOATS, NUMBERS, WIDE


def reduced(shape: Shape, axes: list[int], keep: bool) -> Shape:
    """A shape whose axes are reduced to one element, kept or dropped."""
    if keep:
        return tuple(1 if i in axes else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in axes)


def _reduce(use: Use) -> list[Shape]:
    shape, given = use.shape(), use.integers(1)
    if not given and use["noop_with_empty_axes"]:
        return [shape]
    axes = [axis_in(axis, len(shape)) for axis in given or range(len(shape))]
    return [reduced(shape, axes, bool(use["keepdims"]))]


def _arg(use: Use) -> list[Shape]:
    shape = use.shape()
    axis = axis_in(use["axis"], len(shape))
    result = reduced(shape, [axis], bool(use["keepdims"]))
    if 0 not in result and 0 in shape:
        raise ShapeMismatch(f"axis {axis} of the input of shape {listed(shape)} has no elements")
    return [result]


def _along_axis(use: Use) -> list[Shape]:
    axis_in(use["axis"], len(use.shape()))
    return [use.shape()]


def _mean_variance(use: Use) -> list[Shape]:
    axes_in(use["axes"], len(use.shape()))
    return [use.shape()]


def _reductions(names: str, dtypes: frozenset[str]) -> dict[str, OpSpec]:
    attributes = {"keepdims": flag(1), "noop_with_empty_axes": flag(0)}
    entry = operator(
        Kind.REDUCTION, "T int64? -> T", _reduce, attributes, structural=(1,), T=dtypes
    )
    return dict.fromkeys(names.split(), entry)


_ARG = {"axis": integer(0), "keepdims": flag(1), "select_last_index": flag(0)}
_AXIS = {"axis": integer(-1)}

REDUCTIONS: dict[str, OpSpec] = {
    **_reductions(
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceProd ReduceSum"
        " ReduceSumSquare",
        WIDE,
    ),
    **_reductions("ReduceMax ReduceMin", WIDE | BOOL | {"int8", "uint8"}),
    **dict.fromkeys(
        ("ArgMax", "ArgMin"), operator(Kind.REDUCTION, "T -> int64", _arg, _ARG, T=NUMBERS)
    ),
    **dict.fromkeys(
        ("Softmax", "LogSoftmax"),
        operator(Kind.REDUCTION, "T -> T", _along_axis, _AXIS, T=FLOATS),
    ),
    "LpNormalization": operator(
        Kind.REDUCTION,
        "T -> T",
        _along_axis,
        {**_AXIS, "p": Attribute("int", 2, allowed=(1, 2))},
        T=FLOATS,
    ),
    "MeanVarianceNormalization": operator(
        Kind.REDUCTION, "T -> T", _mean_variance, {"axes": integers((0, 2, 3))}, T=FLOATS
    ),
}
"""The entries of this family, by operator."""
