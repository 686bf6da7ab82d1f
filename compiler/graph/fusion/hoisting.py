"""Elementwise operators on a view of a contraction's result, moved before the view."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.ir.dataflow import OperatorOp
from compiler.ir.types import shape_of
from compiler.net.attributes import Shape
from compiler.net.operators import KINDS, Kind
from compiler.tensors.exact import same_extents
from compiler.tensors.row_major import squeezed_shape

MOST_FOLLOWING = 64
"""How many operators before a view are looked at for a contraction."""

_BY_AXIS = ("BatchNormalization", "Expand")
"""Elementwise operators whose operands are not all broadcast from the last axis."""


@dataclass(frozen=True, slots=True)
class Hoisted:
    """An elementwise operator on the tensor that a view reads; the operator becomes a view of it.

    Its operands have these shapes, those of None as they are; `shape` is that of its result.
    """

    operands: Sequence[tuple[SSAValue, Shape | None]]
    shape: Shape


def hoisted(op: OperatorOp) -> Hoisted | None:
    """An elementwise operator before the view that it reads, or None.

    A contraction computes the tensor that the view reads, so that the operator can be its epilogue,
    and the view does more than add and drop ones, which kernels do in passing.
    """
    if KINDS[op.type_name] is not Kind.ELEMENTWISE or op.type_name in _BY_AXIS:
        return None
    result = shape_of(op.outputs[0].type)
    shapes = [(value, _shape(value)) for value in op.inputs]
    full = [value for value, own in shapes if own is not None and same_extents(own, result)]
    source = next((source for value in full if (source := _source(value)) is not None), None)
    if source is None or 0 in result or any(map(_is_computed_there, full)):
        return None
    shape = shape_of(source.type)
    operands = [_operand(value, shape, result) for value in op.inputs]
    known = [operand for operand in operands if operand is not None]
    return Hoisted(known, shape) if len(known) == len(operands) else None


def _operand(value: SSAValue, source: Shape, result: Shape) -> tuple[SSAValue, Shape | None] | None:
    """An operand before a view, with its shape there; None if it has none."""
    own = _shape(value)
    if own is None:
        return value, None
    if same_extents(own, result):
        return value, source
    shape = broadcast_before(source, result, own)
    if shape is None:
        return None
    kept = _without_leading_ones(own) == shape and len(own) <= len(source)
    return value, None if kept else shape


def broadcast_before(source: Shape, result: Shape, operand: Shape) -> Shape | None:
    """The shape in which an operand broadcasts over a tensor as it does over a view of it.

    None if there is none: axes that the view splits or merges are whole in the operand, or ones.
    """
    aligned = (*(1,) * (len(result) - len(operand)), *operand)
    extents: list[int] = []
    at = 0
    for before, after in _segments(source, result):
        part = aligned[at : at + len(after)]
        at += len(after)
        if same_extents(part, after):
            extents += before
        elif prod(part) == 1:
            extents += (1,) * len(before)
        else:
            return None
    return _without_leading_ones(tuple(extents))


def _without_leading_ones(shape: Shape) -> Shape:
    return shape[next((axis for axis, size in enumerate(shape) if size != 1), len(shape)) :]


def _segments(source: Shape, result: Shape) -> Iterator[tuple[Shape, Shape]]:
    """The shortest runs of axes of two shapes that hold the same elements, in order."""
    i = j = 0
    while i < len(source) or j < len(result):
        start, other = i, j
        i, j = min(i + 1, len(source)), min(j + 1, len(result))
        while (left := prod(source[start:i])) != (right := prod(result[other:j])):
            i, j = (i + 1, j) if left < right else (i, j + 1)
        yield source[start:i], result[other:j]


def _shape(value: SSAValue) -> Shape | None:
    return None if isinstance(value.type, NoneType) else shape_of(value.type)


def _view(value: SSAValue) -> OperatorOp | None:
    """The view that a value is."""
    owner = value.owner
    return owner if isinstance(owner, OperatorOp) and KINDS[owner.type_name] is Kind.VIEW else None


def _source(value: SSAValue) -> SSAValue | None:
    """The tensor that a view reads from a contraction, for elementwise operators alone."""
    view = _view(value)
    if view is None:
        return None
    source = view.inputs[0]
    reshapes = squeezed_shape(shape_of(source.type)) != squeezed_shape(shape_of(value.type))
    return (
        source if reshapes and _is_only_computed_with(source) and _is_contracted(source) else None
    )


def _is_only_computed_with(value: SSAValue) -> bool:
    """Whether elementwise operators alone read a value, directly or through views."""
    read = [value]
    while read:
        for user in (use.operation for use in read.pop().uses):
            kind = KINDS[user.type_name] if isinstance(user, OperatorOp) else None
            if kind is Kind.VIEW:
                read.append(user.results[0])
            elif kind is not Kind.ELEMENTWISE:
                return False
    return True


def _is_computed_there(value: SSAValue) -> bool:
    """Whether the operator that computes a value may be in one kernel with those that read it."""
    return isinstance(value.owner, OperatorOp) and _view(value) is None


def _is_contracted(value: SSAValue) -> bool:
    """Whether a contraction, and elementwise operators after it, compute a value."""
    ahead = [value]
    seen = {value}
    for _ in range(MOST_FOLLOWING):
        owner = ahead.pop().owner if ahead else None
        if not isinstance(owner, OperatorOp):
            continue
        kind = KINDS[owner.type_name]
        if kind is Kind.CONTRACTION:
            return True
        if kind is Kind.ELEMENTWISE:
            shape = _shape(owner.outputs[0])
            new = [v for v in owner.inputs if _shape(v) == shape and v not in seen]
            ahead += new
            seen.update(new)
    return False
