"""Which Gathers fuse with the Concat that follows, and which indices each of them computes."""

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from compiler.graph.aliases import is_absorbable
from compiler.graph.cost import Roofline, nbytes
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp
from compiler.net.operators import KINDS, Kind, facts_of
from compiler.net.operators.indices import GATHERS

SELECTING = ("Gather", "Slice")
"""Operators that select indices from a tensor, which costs no more than reading them."""


def shared_indices(graph: GraphOp) -> list[OperatorOp]:
    """Operators that select indices of an input or weight, for several Gathers and nothing else.

    Each Gather can select them itself, instead of waiting for another kernel.
    """
    return [op for op in _operators(graph) if _selects(op) and _is_index_of_several(op)]


def fusable_gathers(graph: GraphOp, roofline: Roofline) -> list[list[OperatorOp]]:
    """For each small Concat of Gathers: the indices that only they use, the Gathers, the Concat.

    Its other operands must be inputs, weights or constants. Such a Concat could be a view into
    which each Gather writes, but a launch takes longer than writing all its bytes.
    """
    most = roofline.launch_ns * roofline.bytes_per_ns
    fusable = (_members(op) for op in _operators(graph) if nbytes(op.outputs[0]) <= most)
    return [members for members in fusable if 3 <= len(members) <= roofline.operators]


def _operators(graph: GraphOp) -> Iterator[OperatorOp]:
    return (op for op in graph.body.block.ops if isinstance(op, OperatorOp) and op.outputs)


def _selects(op: OperatorOp) -> bool:
    """Whether an operator selects elements of tensors that no kernel computes."""
    return op.type_name in SELECTING and not any(map(_is_computed, op.inputs))


def _is_computed(value: SSAValue) -> bool:
    return isinstance(value.owner, OperatorOp | GroupOp)


def _is_index_of_several(op: OperatorOp) -> bool:
    uses = list(op.outputs[0].uses)
    return len(uses) > 1 and all(use.index == 1 and _is_gather(use.operation) for use in uses)


def _users(op: OperatorOp) -> list[Operation]:
    return [use.operation for value in op.outputs for use in value.uses]


def _is_gather(op: object) -> bool:
    return isinstance(op, OperatorOp) and op.type_name in GATHERS


def _members(op: OperatorOp) -> list[OperatorOp]:
    """A Concat after its Gathers; empty if another kernel computes any of its operands."""
    if not facts_of(op.type_name).concatenates:
        return []
    computed = [_before_views(value) for value in op.inputs if _is_computed(value)]
    gathers = [owner for owner in computed if isinstance(owner, OperatorOp) and _is_gather(owner)]
    if len(gathers) < len(computed) or any(len(_users(gather)) > 1 for gather in gathers):
        return []
    return [*(member for gather in gathers for member in (*_own_indices(gather), gather)), op]


def _before_views(value: SSAValue) -> Operation | Block:
    """A value's producer, looking through views without other users that may move into a group."""
    owner = value.owner
    while isinstance(owner, OperatorOp) and KINDS.get(owner.type_name) is Kind.VIEW:
        if len(_users(owner)) > 1 or not is_absorbable(owner):
            break
        owner = owner.inputs[0].owner
    return owner


def _own_indices(gather: OperatorOp) -> Iterator[OperatorOp]:
    index = gather.inputs[1].owner
    if isinstance(index, OperatorOp) and _selects(index) and len(_users(index)) == 1:
        yield index
