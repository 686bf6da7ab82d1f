"""Operators that reduce axes, or normalise along one."""

import operator as arithmetic
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from compiler.net.attributes import (
    LAST_AXIS,
    LISTED_AXES,
    Attribute,
    Mismatch,
    Shape,
    axes_attribute,
    axis_attribute,
    flag,
)
from compiler.net.facts import Facts, always_within
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.elementwise import largest, smallest
from compiler.net.operators.shapes import axes_in, axis_in, listed
from compiler.net.spec import Kind, OpSpec, onnx_form, operator
from compiler.tensors.dtypes import BOOL, FLOATS, NUMBERS, WIDE


def reduced(shape: Shape, axes: list[int], keep: bool) -> Shape:
    """A shape whose axes are reduced to one element, kept or dropped."""
    if keep:
        return tuple(1 if i in axes else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in axes)


def _axes_of_operand(node: TypedNode) -> dict[str, list[int]]:
    """The axes that ONNX's operand lists; all of them, or none, if it lists none."""
    rank = len(node.shape())
    given = node.integers(1)
    if not given:
        return {"axes": [] if node["noop_with_empty_axes"] else list(range(rank))}
    return {"axes": sorted({axis_in(axis, rank) for axis in given})}


def _axes_as_operand(node: TypedNode) -> dict[str, object]:
    """ONNX reduces every axis if none is listed, unless an attribute says otherwise."""
    return {"axes": node["axes"], "noop_with_empty_axes": int(not node["axes"])}


def _listed_axes(node: TypedNode) -> list[int]:
    return node["axes"]


def _one_axis(node: TypedNode) -> list[int]:
    return [axis_in(node["axis"], len(node.shape()))]


def _reduce(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    axes = node["axes"]
    for axis in axes:
        axis_in(axis, len(shape))
    if any(axis >= other for axis, other in pairwise(axes)):
        raise Mismatch(f"its axes {listed(axes)} are not in order")
    return [reduced(shape, axes, bool(node["keepdims"]))]


def _arg(node: TypedNode) -> list[Shape]:
    shape, (axis,) = node.shape(), _one_axis(node)
    result = reduced(shape, [axis], bool(node["keepdims"]))
    if 0 not in result and 0 in shape:
        raise ShapeMismatch(f"axis {axis} of the input of shape {listed(shape)} has no elements")
    return [result]


def _along_axis(node: TypedNode) -> list[Shape]:
    axis_in(node["axis"], len(node.shape()))
    return [node.shape()]


def _mean_variance(node: TypedNode) -> list[Shape]:
    axes_in(node["axes"], len(node.shape()))
    return [node.shape()]


def _reductions(
    names: str,
    dtypes: frozenset[str],
    flops: int = 1,
    through_floats: bool = False,
    exact: bool = False,
    on_extents: Callable[..., Any] | None = None,
    of_one: str = "",
) -> dict[str, OpSpec]:
    entry = operator(
        Kind.REDUCTION,
        "T -> T",
        _reduce,
        {"axes": LISTED_AXES, "keepdims": flag(1)},
        onnx=onnx_form(
            "T int64?",
            {1: "axes"},
            _axes_of_operand,
            {"keepdims": flag(1), "noop_with_empty_axes": flag(0)},
            _axes_as_operand,
        ),
        facts=Facts(
            flops=flops,
            wide=not exact,
            exact=exact,
            reduces=_listed_axes,
            through_floats=through_floats,
            on_extents=on_extents,
            of_one=of_one,
        ),
        T=dtypes,
    )
    return dict.fromkeys(names.split(), entry)


_EXTREMES = WIDE | BOOL | {"int8", "uint8"}
_ARG = {"axis": axis_attribute(0), "keepdims": flag(1), "select_last_index": flag(0)}
_AXIS = {"axis": LAST_AXIS}

LISTED_REDUCTIONS: dict[str, OpSpec] = {
    **_reductions("ReduceL1", WIDE, of_one="Abs"),
    **_reductions("ReduceSumSquare", WIDE, of_one="Mul"),
    **_reductions("ReduceProd", WIDE, on_extents=arithmetic.mul),
    **_reductions("ReduceSum", WIDE, on_extents=arithmetic.add),
    **_reductions("ReduceLogSum", WIDE, through_floats=True, of_one="Log"),
    **_reductions("ReduceLogSumExp ReduceMean", WIDE, through_floats=True),
    **_reductions("ReduceL2", WIDE, flops=8, through_floats=True, of_one="Abs"),
    **_reductions("ReduceMax", _EXTREMES, exact=True, on_extents=largest),
    **_reductions("ReduceMin", _EXTREMES, exact=True, on_extents=smallest),
}
"""The reductions over axes that an attribute lists, an operand in ONNX since opset 18."""

REDUCTIONS: dict[str, OpSpec] = {
    **LISTED_REDUCTIONS,
    **dict.fromkeys(
        ("ArgMax", "ArgMin"),
        operator(
            Kind.REDUCTION,
            "T -> int64",
            _arg,
            _ARG,
            facts=Facts(reduces=_one_axis),
            T=NUMBERS,
        ),
    ),
    "Softmax": operator(
        Kind.REDUCTION,
        "T -> T",
        _along_axis,
        _AXIS,
        facts=Facts(flops=8, reduces=_one_axis, interval=always_within(0.0, 1.0)),
        T=FLOATS,
    ),
    "LogSoftmax": operator(
        Kind.REDUCTION,
        "T -> T",
        _along_axis,
        _AXIS,
        facts=Facts(flops=8, reduces=_one_axis),
        T=FLOATS,
    ),
    "LpNormalization": operator(
        Kind.REDUCTION,
        "T -> T",
        _along_axis,
        {**_AXIS, "p": Attribute("int", 2, allowed=(1, 2))},
        facts=Facts(reduces=_one_axis, wide=True, small=True),
        T=FLOATS,
    ),
    "MeanVarianceNormalization": operator(
        Kind.REDUCTION, "T -> T", _mean_variance, {"axes": axes_attribute((0, 2, 3))}, T=FLOATS
    ),
}
"""The entries of this family, by operator."""
