"""Which scales and zero points become operands of kernels, so that layers share these.

Groups that are alike but for such constants need one kernel if it reads them. A zero point of 0
stays: it selects shorter code. So does every constant that all these groups have.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from xdsl.ir import Operation

from compiler.graph.attention import ANCHOR, may_attend
from compiler.graph.signature import content_lines
from compiler.ir.dataflow import ConstantOp, GroupOp, OperatorOp
from compiler.ir.types import dtype_of
from compiler.ir.values import attribute_to_array
from compiler.net.operators import BYTE_CONTRACTIONS, facts_of
from compiler.net.operators.elementwise import ARITHMETIC

_INPUT_ZERO = 2
"""The operand of a contraction of bytes that is the zero point of its first."""

_BYTES = ("uint8", "int8")

FEWEST_SAVED = 2
"""The fewest kernels that sharing one has to save: one that has its constants is never slower."""


@dataclass(frozen=True)
class SharedScale:
    """Constants of one value in a group, which become one operand of a dtype."""

    constants: tuple[ConstantOp, ...]
    value: float
    dtype: str


def shared_scales(
    groups: Iterable[GroupOp], on_gpu: bool = False
) -> dict[GroupOp, tuple[SharedScale, ...]]:
    """The constants that become operands, by group, in the order of its operands.

    Groups that are alike but for these have the same of them. They are scales and zero points, on
    a GPU also the limits that numbers are clipped to.
    """
    classes: dict[str, list[tuple[GroupOp, list[ConstantOp]]]] = defaultdict(list)
    for group in groups:
        quantised = is_quantised(group)
        if group.control is None and (on_gpu or quantised):
            suits = _clips if not quantised else _scales_or_clips if on_gpu else _scales
            scales = [op for op in _candidates(group, suits) if not on_gpu or _is_late(op)]
            if scales:
                content = "\n".join(content_lines(group, frozenset[Operation](scales)))
                classes[content].append((group, scales))
    decided: dict[GroupOp, tuple[SharedScale, ...]] = {}
    for members in classes.values():
        decided |= _differing(members)
    return decided


def attends(group: GroupOp) -> bool:
    """Whether a group may be an attention."""
    return may_attend(op.type_name for op in group.operators)


def _is_late(constant: ConstantOp) -> bool:
    """Whether kernels of an attention may read a constant: one of scores or results."""
    group = constant.parent_op()
    if not isinstance(group, GroupOp) or not attends(group):
        return True
    parts = attention_parts(group)
    late = AttentionPart.SCORES, AttentionPart.RESULTS
    return all(parts[use.operation] in late for use in constant.output.uses)


class AttentionPart(IntEnum):
    """The parts of an attention, in order."""

    OPERANDS = 0
    SCORES = 1
    WEIGHTS = 2
    RESULTS = 3


def attention_parts(group: GroupOp) -> dict[Operation, AttentionPart]:
    """The part of an attention that each operation of its group belongs to."""
    part_of: dict[Operation, AttentionPart] = {}
    for op in group.body.block.ops:
        owners = (value.owner for value in op.operands)
        before = (
            part_of.get(o, AttentionPart.OPERANDS) for o in owners if isinstance(o, Operation)
        )
        part_of[op] = _part_after(op, max(before, default=AttentionPart.OPERANDS))
    return part_of


def _part_after(op: Operation, before: AttentionPart) -> AttentionPart:
    """The part of an operation whose operands are of parts up to one."""
    kind = op.type_name if isinstance(op, OperatorOp) else ""
    if kind == ANCHOR:
        return AttentionPart.WEIGHTS
    if kind != "MatMul":
        return before
    weighted = before is AttentionPart.WEIGHTS
    return AttentionPart.RESULTS if weighted else AttentionPart.SCORES


def is_quantised(group: GroupOp) -> bool:
    """Whether a group rounds numbers or computes with bytes."""
    return any(
        op.type_name in ("Round", *BYTE_CONTRACTIONS)
        or (facts_of(op.type_name).converts and dtype_of(op.inputs[0].type) in _BYTES)
        for op in group.operators
    )


def _candidates(
    group: GroupOp, suits: Callable[[OperatorOp | None, int], bool]
) -> Iterator[ConstantOp]:
    """The constants of one element, but 0, of which all uses suit."""
    for op in group.body.block.ops:
        if isinstance(op, ConstantOp) and attribute_to_array(op.value).size == 1:
            known = dtype_of(op.output.type) in ("float32", "int32", *_BYTES)
            if known and _value_of(op) and all(suits(*use) for use in _uses(op)):
                yield op


def _uses(op: ConstantOp) -> Iterator[tuple[OperatorOp | None, int]]:
    for use in op.output.uses:
        user = use.operation
        yield (user if isinstance(user, OperatorOp) else None), use.index


def _scales(user: OperatorOp | None, operand: int) -> bool:
    """Whether an operator scales or shifts by an operand, or divides what is rounded then.

    Other quotients by constants become multiplications.
    """
    if user is None:
        return False
    if user.type_name == "Div":
        users = [use.operation for use in user.outputs[0].uses]
        rounded = (isinstance(u, OperatorOp) and u.type_name == "Round" for u in users)
        return operand == 1 and all(rounded)
    if user.type_name in BYTE_CONTRACTIONS:
        return operand == _INPUT_ZERO
    return user.type_name in ARITHMETIC


def _clips(user: OperatorOp | None, operand: int) -> bool:
    """Whether an operator clips to an operand."""
    return user is not None and facts_of(user.type_name).clips and operand > 0


def _scales_or_clips(user: OperatorOp | None, operand: int) -> bool:
    """Whether an operator scales, shifts or clips by an operand."""
    return _scales(user, operand) or _clips(user, operand)


def _value_of(op: ConstantOp) -> float:
    """The number that a constant of one element is."""
    return attribute_to_array(op.value).reshape(-1)[0].item()


def _differing(
    members: Sequence[tuple[GroupOp, list[ConstantOp]]],
) -> Iterator[tuple[GroupOp, tuple[SharedScale, ...]]]:
    """The constants that differ between groups that are alike without them."""
    table = np.array(
        [[_value_of(op) for op in distinct] for _, distinct in members],
        np.float64,
    )
    if len(np.unique(table, axis=0)) <= FEWEST_SAVED:
        return
    columns = list(_columns(table))
    for row, (group, distinct) in enumerate(members):
        same = [(alike, tuple(distinct[i] for i in alike)) for alike in columns]
        scales = [
            SharedScale(constants, float(table[row, alike[0]]), dtype)
            for alike, constants in same
            if (dtype := _narrowed(constants, table[:, alike[0]]))
        ]
        if scales:
            yield group, tuple(scales)


def _columns(table: np.ndarray) -> Iterable[list[int]]:
    """The columns with several numbers, those together that are equal."""
    alike: dict[bytes, list[int]] = defaultdict(list)
    for i, column in enumerate(table.T):
        if len(np.unique(column)) > 1:
            alike[column.tobytes()].append(i)
    return alike.values()


def _narrowed(constants: Sequence[ConstantOp], values: np.ndarray) -> str:
    """The type that holds the numbers of constants: of bytes if they are zero points."""
    wide = all(_clips(*use) for op in constants for use in _uses(op))
    group = constants[0].parent_op()
    wide |= isinstance(group, GroupOp) and attends(group)
    return ("" if wide else _narrowest(values)) or _only_dtype(constants)


def _narrowest(values: np.ndarray) -> str:
    """The type of bytes that holds some numbers, as zero points; empty for others."""
    whole = (values % 1 == 0).all()
    for dtype in _BYTES if whole else ():
        limits = np.iinfo(dtype)
        if limits.min <= values.min() and values.max() <= limits.max:
            return dtype
    return ""


def _only_dtype(constants: Iterable[ConstantOp]) -> str:
    dtypes = {dtype_of(op.output.type) for op in constants}
    return dtypes.pop() if len(dtypes) == 1 else ""
