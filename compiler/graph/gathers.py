"""Which gathers are one kernel with the Concat behind them, and which indices each makes itself."""

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from compiler.graph.cost import Roofline, nbytes
from compiler.graph.operator_table import is_absorbable
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp
from compiler.ir.operators import KINDS, Kind

GATHERS = ("Gather", "GatherElements", "GatherND")
"""Operators that read their first operand where their second one says."""

TAKING = ("Gather", "Slice")
"""Operators that take indices from what holds them, which costs no more than reading them."""


def shared_indices(graph: GraphOp) -> list[OperatorOp]:
    """Indices taken from an input or weight for several gathers and for nothing else.

    Each gather can take them itself, instead of waiting for another kernel.
    """
    return [op for op in _operators(graph) if _takes(op) and _is_index_of_several(op)]


def joined_gathers(graph: GraphOp, roofline: Roofline) -> list[list[OperatorOp]]:
    """Each Concat of gathers with these and the indices that only they use, which come first.

    All else that it joins must be there before. Such a Concat could be a view into which each
    gather writes, but a launch takes longer than all these bytes.
    """
    most = roofline.launch_ns * roofline.bytes_per_ns
    found = (_members(op) for op in _operators(graph) if nbytes(op.outputs[0]) <= most)
    return [members for members in found if 3 <= len(members) <= roofline.operators]


def _operators(graph: GraphOp) -> Iterator[OperatorOp]:
    return (op for op in graph.body.block.ops if isinstance(op, OperatorOp) and op.outputs)


def _takes(op: OperatorOp) -> bool:
    """Whether an operator takes elements of what is there before any kernel runs."""
    return op.type_name in TAKING and not any(map(_is_computed, op.inputs))


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
    """A Concat behind what it joins; none where it joins anything computed but its own gathers."""
    if op.type_name != "Concat":
        return []
    computed = [_before_views(value) for value in op.inputs if _is_computed(value)]
    gathers = [each for each in computed if isinstance(each, OperatorOp) and _is_gather(each)]
    if len(gathers) < len(computed) or any(len(_users(each)) > 1 for each in gathers):
        return []
    return [*(each for gather in gathers for each in (*_own_indices(gather), gather)), op]


def _before_views(value: SSAValue) -> Operation | Block:
    """What makes a value, but for views that nothing else needs and that may move into a group."""
    owner = value.owner
    while isinstance(owner, OperatorOp) and KINDS.get(owner.type_name) is Kind.VIEW:
        if len(_users(owner)) > 1 or not is_absorbable(owner):
            break
        owner = owner.inputs[0].owner
    return owner


def _own_indices(gather: OperatorOp) -> Iterator[OperatorOp]:
    index = gather.inputs[1].owner
    if isinstance(index, OperatorOp) and _takes(index) and len(_users(index)) == 1:
        yield index
