"""Operators whose result has the same bytes in another shape."""

from collections.abc import Sequence
from math import prod

from compiler.net.attributes import LISTED_AXES, Mismatch, Shape, axis_attribute, flag, one_each
from compiler.net.facts import DERIVED
from compiler.net.maps import Maps, view_map
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import axes_in, axis_in, listed, same_count, same_shape
from compiler.net.spec import Kind, OpSpec, onnx_form, operator
from compiler.tensors.dtypes import MOVABLE


def _flatten(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    axis = node["axis"]
    if not -len(shape) <= axis <= len(shape):
        raise ShapeMismatch(f"axis {axis} is outside the input of shape {listed(shape)}")
    cut = axis + len(shape) if axis < 0 else axis
    return [(prod(shape[:cut]), prod(shape[cut:]))]


def _kept(shape: Shape, index: int, target: list[int]) -> int:
    if index >= len(shape):
        raise ShapeMismatch(
            f"its target shape {listed(target)} keeps dimension {index}, which the input of shape"
            f" {listed(shape)} does not have"
        )
    return shape[index]


def _rest(shape: Shape, wanted: list[int], target: list[int]) -> int:
    others = prod(size for size in wanted if size != -1)
    if not others or prod(shape) % others:
        raise ShapeMismatch(
            f"the input of shape {listed(shape)} has {prod(shape)} elements, which its target shape"
            f" {listed(target)} does not divide"
        )
    return prod(shape) // others


def _shape_of_target(node: TypedNode) -> dict[str, Shape]:
    shape = node.shape()
    target = node.vector(1)
    # The shape for a Reshape's target: a 0 keeps a size, unless allowed; -1 is inferred.
    allow_zero = bool(node["allowzero"])
    wanted = [
        size if size or allow_zero else _kept(shape, i, target) for i, size in enumerate(target)
    ]
    if any(size < -1 for size in wanted) or wanted.count(-1) > 1:
        raise Mismatch(f"its target shape {listed(target)} has negative sizes besides one -1")
    if -1 in wanted:
        wanted[wanted.index(-1)] = _rest(shape, wanted, target)
    same_count(shape, tuple(wanted))
    return {"shape": tuple(wanted)}


def _target_of_shape(node: TypedNode) -> dict[str, object]:
    return {"shape": node["shape"], "allowzero": int(0 in node["shape"])}


def _reshape(node: TypedNode) -> list[Shape]:
    shape = tuple(node["shape"])
    same_count(node.shape(), shape)
    return [shape]


def _dropped_axes(node: TypedNode) -> dict[str, list[int]]:
    """Every axis of one element, if ONNX's operand is left out."""
    shape = node.shape()
    given = node.integers(1)
    if given is None:
        return {"axes": [axis for axis, size in enumerate(shape) if size == 1]}
    return {"axes": sorted({axis_in(axis, len(shape)) for axis in given})}


def _squeeze(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    axes = [axis_in(axis, len(node.shape())) for axis in node["axes"]]
    for axis in axes:
        if shape and shape[axis] != 1:
            raise ShapeMismatch(
                f"it drops dimension {axis} of the input of shape {listed(shape)}, which is"
                f" {shape[axis]} instead of 1"
            )
    return [tuple(size for i, size in enumerate(shape) if i not in axes)]


def _added_axes(node: TypedNode) -> dict[str, list[int]]:
    given = node.vector(1, or_scalar=True)
    return {"axes": sorted(axes_in(given, len(node.shape()) + len(given)))}


def _unsqueeze(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    rank = len(node.shape()) + len(node["axes"])
    axes = set(axes_in(node["axes"], rank))
    rest = iter(shape)
    return [tuple(1 if i in axes else next(rest) for i in range(rank))]


def _in_order(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    return [[view_map(node.shape(), shapes[0])]]


_CUT = axis_attribute(1, lambda shapes: len(shapes[0] or ()))

VIEWS: dict[str, OpSpec] = {
    "Flatten": operator(Kind.VIEW, "T -> T", _flatten, {"axis": _CUT}, maps=_in_order, T=MOVABLE),
    "Identity": operator(Kind.VIEW, "T -> T", same_shape, maps=_in_order, T=MOVABLE),
    "Reshape": operator(
        Kind.VIEW,
        "T -> T",
        _reshape,
        {"shape": one_each(least=0)},
        maps=_in_order,
        onnx=onnx_form(
            "T int64", {1: "shape"}, _shape_of_target, {"allowzero": flag(0)}, _target_of_shape
        ),
        facts=DERIVED,
        T=MOVABLE,
    ),
    "Squeeze": operator(
        Kind.VIEW,
        "T -> T",
        _squeeze,
        {"axes": LISTED_AXES},
        maps=_in_order,
        onnx=onnx_form("T int64?", {1: "axes"}, _dropped_axes),
        T=MOVABLE,
    ),
    "Unsqueeze": operator(
        Kind.VIEW,
        "T -> T",
        _unsqueeze,
        {"axes": one_each(least=0)},
        maps=_in_order,
        onnx=onnx_form("T int64", {1: "axes"}, _added_axes),
        T=MOVABLE,
    ),
}
"""The entries of this family, by operator."""
