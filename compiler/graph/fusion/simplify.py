"""Local simplifications of single operators; all are exact, bit for bit."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, SSAValue

from compiler.graph.fusion.hoisting import Hoisted, hoisted
from compiler.graph.fusion.slices import Sliced, before_slice
from compiler.ir.dataflow import ConstantOp, OperatorOp
from compiler.ir.movement import operator_maps
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array, value_to_attribute
from compiler.net.maps import strided
from compiler.net.operators import KINDS, OPERATORS, Kind, OpSpec, facts_of
from compiler.net.operators.movement import is_movement
from compiler.tensors.exact import same_extents
from compiler.tensors.strides import StridedWindow


def constant_operand(op: OperatorOp, operand: int) -> NDArray[Any] | None:
    """The value of an operand that is a constant; None for any other and for one left out."""
    owner = op.inputs[operand].owner if operand < len(op.inputs) else None
    return attribute_to_array(owner.value) if isinstance(owner, ConstantOp) else None


@dataclass(frozen=True, slots=True)
class Update:
    """New inputs and attributes for the operator."""

    inputs: Sequence[SSAValue]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class ReshapeOf:
    """The operator becomes a Reshape of this value to the shape of its result."""

    source: SSAValue


Simplification = SSAValue | Update | ReshapeOf | Hoisted | Sliced
"""A value that replaces the operator's only result, or what the operator becomes."""

SimplificationRule = Callable[[OperatorOp], Simplification | None]


def simplify(op: OperatorOp) -> Simplification | None:
    """The first simplification that applies to an operator outside groups, or None."""
    moves = is_movement(op.type_name) and KINDS[op.type_name] is not Kind.VIEW
    for rule in ((_keeps_order,) if moves else ()) + _RULES.get(op.type_name, ()):
        if (simplification := rule(op)) is not None:
            return simplification
    return hoisted(op) or before_slice(op)


def concat_key(op: OperatorOp) -> Hashable | None:
    """A key that Concats share whose results have the same bytes; None for other operators.

    A Concat interleaves its operands, each split into as many parts as there are indices before
    its axis; reshapes of the operands change neither.
    """
    if not facts_of(op.type_name).concatenates:
        return None
    shape = shape_of(op.outputs[0].type)
    parts = prod(shape[: op["axis"]])
    return parts, tuple(_before_reshapes(value) for value in op.inputs)


def _before_reshapes(value: SSAValue) -> SSAValue:
    """The value that reshapes compute another one from."""
    while (before := _producer(value, *_VIEWS)) is not None:
        value = before.inputs[0]
    return value


def _producer(value: SSAValue, *types: str) -> OperatorOp | None:
    owner = value.owner
    return owner if isinstance(owner, OperatorOp) and owner.type_name in types else None


def _same_type(op: OperatorOp) -> SSAValue | None:
    """Remove an operator that does nothing if its result has its input's type."""
    return op.inputs[0] if op.inputs[0].type == op.outputs[0].type else None


def _single(op: OperatorOp) -> SSAValue | None:
    return op.inputs[0] if len(op.inputs) == 1 else None


def _keeps_order(op: OperatorOp) -> Simplification | None:
    """An operator whose result has all elements of an operand, in their order, moves nothing."""
    if len(op.outputs) > 1:
        return None
    if 0 in (shape := shape_of(op.outputs[0].type)):
        return _same_type(op)
    ((first, *others),) = operator_maps(op)
    source = op.inputs[first.operand]
    before = shape_of(source.type)
    count = prod(shape)
    if others or not same_extents([prod(before)], [count]):
        return None
    constants = [constant_operand(op, operand) for operand in range(len(op.inputs))]
    window = strided(first, StridedWindow.contiguous(before), shape, constants)
    if window is None or window.reshaped((count,)) != StridedWindow.contiguous((count,)):
        return None
    return source if source.type == op.outputs[0].type else ReshapeOf(source)


def _view_of_view(op: OperatorOp) -> ReshapeOf | None:
    before = _producer(op.inputs[0], *_VIEWS)
    return ReshapeOf(before.inputs[0]) if before and 0 not in shape_of(op.outputs[0].type) else None


def _transpose_of_transpose(op: OperatorOp) -> Update | None:
    before = _producer(op.inputs[0], "Transpose")
    if before is None:
        return None
    inner = before["perm"]
    composed = [inner[axis] for axis in op["perm"]]
    return Update([before.inputs[0]], {"perm": value_to_attribute(composed)})


def _neutral(operand: int, neutral: float) -> SimplificationRule:
    """Drop an operand that is neutral everywhere; of floats, a zero of the other sign is not."""

    def rule(op: OperatorOp) -> SSAValue | None:
        other = op.inputs[1 - operand]
        array = constant_operand(op, operand)
        if array is None or other.type != op.outputs[0].type or not (array == neutral).all():
            return None
        signed = neutral == 0 and "float" in dtype_of(other.type)
        wrong_zero = signed and (np.signbit(array) != np.signbit(neutral)).any()
        return None if wrong_zero else other

    return rule


def _idempotent(op: OperatorOp) -> SSAValue | None:
    before = _producer(op.inputs[0], op.type_name)
    same = before is not None and list(before.inputs)[1:] == list(op.inputs)[1:]
    return op.inputs[0] if same else None


def _involution(op: OperatorOp) -> SSAValue | None:
    before = _producer(op.inputs[0], op.type_name)
    return before.inputs[0] if before is not None else None


def _all_parts(op: OperatorOp) -> SSAValue | None:
    """The tensor that a Concat puts together again of all its parts, in order."""
    split = _producer(op.inputs[0], "Split")
    whole = split is not None and split["axis"] == op["axis"] and [*op.inputs] == [*split.outputs]
    return split.inputs[0] if split is not None and whole else None


def _padded_convolution(op: OperatorOp) -> Update | None:
    """Fold a Pad with zeros into the `pads` of the convolution that follows."""
    pad = _producer(op.inputs[0], "Pad")
    if pad is None:
        return None
    # The zeros added before (row 0) and after (row 1) each axis; None for other padding.
    fill = constant_operand(pad, 1) if len(pad.inputs) > 1 else np.zeros(1)
    if pad["mode"] != "constant" or fill is None or fill.any():
        added = None
    else:
        added = np.array(pad["pads"]).reshape(2, -1)
    if added is None or added[:, :2].any() or (added < 0).any():
        return None
    spatial = added[:, 2:].ravel().tolist()
    pads = [a + b for a, b in zip(op["pads"], spatial, strict=True)]
    return Update(
        [pad.inputs[0], *list(op.inputs)[1:]], {**op.attributes, "pads": value_to_attribute(pads)}
    )


_VIEWS = tuple(name for name, kind in KINDS.items() if kind is Kind.VIEW)


def _general_rules(entry: OpSpec) -> Iterator[SimplificationRule]:
    """The rules that follow from what the table says of an operator."""
    facts = entry.facts
    if entry.kind is Kind.VIEW:
        yield from (_same_type, _view_of_view)
    if facts.converts:
        yield _same_type
    if facts.permutes:
        yield _transpose_of_transpose
    if facts.concatenates:
        yield _all_parts
    if entry.most_inputs is None and facts.exact:
        yield _single
    if facts.idempotent:
        yield _idempotent
    if facts.involution:
        yield _involution
    for operand, neutral in enumerate(facts.neutral):
        if neutral is not None:
            yield _neutral(operand, neutral)


_RULES = {name: (*_general_rules(entry),) for name, entry in OPERATORS.items()}
_RULES["Conv"] = (*_RULES["Conv"], _padded_convolution)
