"""The edits of a graph that passes share."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.errors import PipelineError
from compiler.ir.dataflow import ConstantOp, GraphOp, GroupOp, OperatorOp, YieldOp
from compiler.ir.types import dtype_of, tensor_type
from compiler.ir.values import Value, array_to_attribute, value_to_attribute

Op = TypeVar("Op", bound=Operation)


def graphs_of(module: ModuleOp) -> list[GraphOp]:
    """The `dataflow.graph`s of a module; raises PipelineError where there is none."""
    graphs = [op for op in module.ops if isinstance(op, GraphOp)]
    if not graphs:
        raise PipelineError("there is no dataflow.graph: this pass runs before lower-to-taskflow")
    return graphs


def last_of(op: Operation) -> Operation:
    """The last operation of an operation's block: its terminator."""
    block = op.parent_block()
    assert block is not None
    assert block.last_op is not None
    return block.last_op


def insert_before(place: Operation, *operations: Operation) -> None:
    """Insert new or detached operations in front of one that is in a block."""
    Rewriter.insert_op(operations, InsertPoint.before(place))


def like_before(
    place: OperatorOp,
    type_name: str,
    operands: Sequence[SSAValue],
    shape: Sequence[int],
    **attributes: Value,
) -> SSAValue:
    """The result of a new operator in front of another one, whose element type and node it has."""
    result = tensor_type(dtype_of(place.outputs[0].type), tuple(shape))
    values = {name: value_to_attribute(value) for name, value in attributes.items()}
    op = OperatorOp(type_name, operands, [result], values, place.node_name)
    insert_before(place, op)
    return op.outputs[0]


def integers_before(place: Operation, numbers: Sequence[int]) -> SSAValue:
    """A new int64 vector, as ONNX takes shapes, axes and sizes."""
    constant = ConstantOp(array_to_attribute(np.array(numbers, np.int64)))
    insert_before(place, constant)
    return constant.output


def clone_before(place: Operation, op: Op) -> Op:
    """A copy of an operation in front of another one."""
    copy = op.clone()
    insert_before(place, copy)
    return copy


def move_before(place: Operation, op: Operation) -> None:
    """Take an operation out of its block and put it in front of another one."""
    op.detach()
    insert_before(place, op)


def replace(op: Operation, values: Sequence[SSAValue]) -> None:
    """Let all who use an operation's results use these values, and erase it."""
    Rewriter.replace_op(op, [], values)


def is_dead(op: Operation) -> bool:
    """Whether nobody uses any result of an operation that is no terminator."""
    return not isinstance(op, YieldOp) and all(value.first_use is None for value in op.results)


def erase_dead(operations: Sequence[Operation]) -> bool:
    """Erase those that nobody uses, the last first; whether there was any."""
    before = len(operations)
    kept = [op for op in reversed(operations) if not _erased_if_dead(op)]
    return len(kept) < before


def _erased_if_dead(op: Operation) -> bool:
    dead = is_dead(op)
    if dead:
        Rewriter.erase_op(op)
    return dead


def reorder_groups(graph: GraphOp, groups: Sequence[GroupOp]) -> None:
    """Put the groups into this order, which must be legal, and views right before their use.

    Weights and constants come first, views that no group uses last.
    """
    block = graph.body.block
    operations = list(block.ops)
    placed: dict[Operation, None] = {
        op: None for op in operations if not isinstance(op, GroupOp | OperatorOp)
    }
    terminator = operations.pop()
    del placed[terminator]
    for op in (*groups, *(op for op in operations if isinstance(op, OperatorOp))):
        _place(op, placed)
    if list(placed) == operations:
        return
    for op in placed:
        block.detach_op(op)
        block.insert_op_before(op, terminator)


def _place(op: Operation, placed: dict[Operation, None]) -> None:
    """Add an operation after the views it needs, without recursion: chains may be long."""
    stack = [op]
    while stack:
        missing = [o for o in _owners(stack[-1]) if isinstance(o, OperatorOp) and o not in placed]
        if missing:
            stack.extend(missing)
        else:
            placed.setdefault(stack.pop())


def _owners(op: Operation) -> list[Operation]:
    return [v.owner for v in op.operands if isinstance(v.owner, Operation)]


def restore_order(graph: GraphOp) -> None:
    """Put every operation behind those it uses, and otherwise keep their order."""
    block = graph.body.block
    operations = list(block.ops)
    number = {op: i for i, op in enumerate(operations)}
    users: list[list[int]] = [[] for _ in operations]
    waiting = [0] * len(operations)
    for i, op in enumerate(operations):
        for owner in set(_owners(op)):
            users[number[owner]].append(i)
            waiting[i] += 1
    ready = [i for i, count in enumerate(waiting) if count == 0 and i < len(operations) - 1]
    heapify(ready)
    while ready:
        i = heappop(ready)
        block.detach_op(operations[i])
        block.insert_op_before(operations[i], operations[-1])
        for user in users[i]:
            waiting[user] -= 1
            if waiting[user] == 0 and user < len(operations) - 1:
                heappush(ready, user)
