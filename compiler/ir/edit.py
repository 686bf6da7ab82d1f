"""Graph edits that passes share."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from compiler.errors import PipelineError
from compiler.ir.context import parse_module
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp, YieldOp
from compiler.ir.types import dtype_of, tensor_type
from compiler.ir.values import Value, value_to_attribute

Op = TypeVar("Op", bound=Operation)


def graphs_of(module: ModuleOp) -> list[GraphOp]:
    """The `dataflow.graph`s of a module, those of bodies before the one around them.

    Raises PipelineError if it has none.
    """
    graphs = [*_graphs_in(module)]
    if not graphs:
        raise PipelineError("there is no dataflow.graph: this pass runs before lower-to-taskflow")
    # A walk meets a graph before those of its bodies: reversed, the inner ones come first.
    return graphs[::-1]


def _graphs_in(op: Operation) -> Iterator[GraphOp]:
    """The graphs of an operation's regions, in order; groups without bodies have none."""
    for inner in (inner for region in op.regions for block in region.blocks for inner in block.ops):
        if not inner.regions:
            continue
        if isinstance(inner, GraphOp):
            yield inner
        if not (isinstance(inner, GroupOp) and inner.control is None):
            yield from _graphs_in(inner)


def replace_graph(graph: GraphOp, text: str) -> None:
    """Replace a graph by the one that a text holds."""
    replacement = parse_module(text).body.block.first_op
    assert replacement is not None
    replacement.detach()
    insert_before(graph, replacement)
    graph.detach()
    graph.erase()


def last_of(op: Operation) -> Operation:
    """The terminator of an operation's block."""
    block = op.parent_block()
    assert block is not None
    assert block.last_op is not None
    return block.last_op


def insert_before(anchor: Operation, *operations: Operation) -> None:
    """Insert new or detached operations before one that is in a block."""
    block = anchor.parent_block()
    assert block is not None
    block.insert_ops_before(operations, anchor)


def like_before(
    anchor: OperatorOp,
    type_name: str,
    operands: Sequence[SSAValue],
    shape: Sequence[int],
    /,
    **attributes: Value,
) -> SSAValue:
    """Insert an operator with `anchor`'s element type and node name; returns its result."""
    result = tensor_type(dtype_of(anchor.outputs[0].type), tuple(shape))
    values = {name: value_to_attribute(value) for name, value in attributes.items()}
    op = OperatorOp(type_name, operands, [result], values, anchor.node_name)
    insert_before(anchor, op)
    return op.outputs[0]


def clone_before(anchor: Operation, op: Op) -> Op:
    """Insert a copy of an operation before `anchor`."""
    copy = op.clone()
    insert_before(anchor, copy)
    return copy


def replace(op: Operation, values: Sequence[SSAValue]) -> None:
    """Replace all uses of an operation's results by these values, and erase the operation."""
    Rewriter.replace_op(op, [], values)


def erase_dead(operations: Sequence[Operation]) -> bool:
    """Erase operations without users, in reverse order; whether there were any."""
    count = len(operations)
    # Users come after what they use: in reverse, one pass erases chains of dead operations.
    alive = [op for op in reversed(operations) if not _erased_if_dead(op)]
    return len(alive) < count


def _erased_if_dead(op: Operation) -> bool:
    dead = not isinstance(op, YieldOp) and all(value.first_use is None for value in op.results)
    if dead:
        Rewriter.erase_op(op)
    return dead


def reorder_groups(graph: GraphOp, groups: Sequence[GroupOp]) -> None:
    """Sort a graph's operations: groups in this order, which must be legal, views before their use.

    Weights and constants come first, views that no group uses last.
    """
    block = graph.body.block
    operations = list(block.ops)
    ordered: dict[Operation, None] = {
        op: None for op in operations if not isinstance(op, GroupOp | OperatorOp)
    }
    terminator = operations.pop()
    del ordered[terminator]
    for op in (*groups, *(op for op in operations if isinstance(op, OperatorOp))):
        _append(op, ordered)
    if list(ordered) == operations:
        return
    for op in ordered:
        block.detach_op(op)
        block.insert_op_before(op, terminator)


def _append(op: Operation, ordered: dict[Operation, None]) -> None:
    """Append an operation after the views that it uses; not recursive, as chains may be long."""
    stack = [op]
    while stack:
        missing = [o for o in _owners(stack[-1]) if isinstance(o, OperatorOp) and o not in ordered]
        if missing:
            stack.extend(missing)
        else:
            ordered.setdefault(stack.pop())


def _owners(op: Operation) -> list[Operation]:
    return [v.owner for v in op.operands if isinstance(v.owner, Operation)]


def restore_order(graph: GraphOp) -> None:
    """Sort a graph's operations topologically, keeping their order where possible."""
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
