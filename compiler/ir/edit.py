"""The edits of a graph that passes share."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from compiler.errors import PipelineError
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp


def graphs_of(module: ModuleOp) -> list[GraphOp]:
    """The `dataflow.graph`s of a module; raises PipelineError where there is none."""
    graphs = [op for op in module.ops if isinstance(op, GraphOp)]
    if not graphs:
        raise PipelineError("there is no dataflow.graph: this pass runs before lower-to-taskflow")
    return graphs


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
