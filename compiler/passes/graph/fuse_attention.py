"""The pass that makes each attention one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from compiler.graph.attention import find_attentions
from compiler.graph.network import read_network
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GraphOp, OperatorOp
from compiler.ir.edit import graphs_of
from compiler.passes.base import GraphPass
from compiler.passes.graph.group_maker import make_group


@dataclass(frozen=True)
class FuseAttention(GraphPass):
    """Group softmax(Q K^T) V into one kernel, with scales and masks in between and the transposes
    and slices that lay out its operands and its result.

    Requires: nothing; best before `fuse-operators`, after `canonicalize`. Ensures: in a graph for a
    target with such kernels (cuda), every attention that `compiler.graph.attention` finds is a
    group of its own; other graphs stay as they are.

        %4 = dataflow.op "Transpose" (%k) ...
        %5 = dataflow.op "MatMul" (%q, %4) ...
        %6 = dataflow.op "Softmax" (%5) ...
        %7 = dataflow.op "MatMul" (%6, %v) ...
      becomes
        %7 = dataflow.group "Transpose_MatMul_Softmax_3f9a2c41d0e7" (%q, %k, %v) ... {...}
    """

    name = "fuse-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Group the attentions of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            if target_of(graph).fuses_attention:
                _fuse(graph)


def _fuse(graph: GraphOp) -> None:
    network = read_network(graph)
    for attention in find_attentions(network):
        operators = [network.operations[i] for i in attention.operators]
        following = operators[-1].next_op
        assert following is not None
        group = make_group(_exclusive(operators), frozenset())
        group.detach()
        graph.body.block.insert_op_before(group, following)


def _exclusive(operators: Sequence[OperatorOp]) -> list[OperatorOp]:
    """The operators, with copies of those that others need as well; the last gives the result."""
    needed, copies = _needed_outside(operators), dict[SSAValue, SSAValue]()
    own: list[OperatorOp] = []
    for op in operators:
        mine = _copy(op) if op in needed else op
        if mine is not op:
            copies.update(zip(op.results, mine.results, strict=True))
        mine.operands = [copies.get(value, value) for value in mine.operands]
        own.append(mine)
    return own


def _needed_outside(operators: Sequence[OperatorOp]) -> set[Operation]:
    """All but the last that others need, or that one of these does."""
    inside, needed = set[Operation](operators), set[Operation]()
    for op in reversed(operators[:-1]):
        users = {use.operation for value in op.results for use in value.uses}
        if not users <= inside - needed:
            needed.add(op)
    return needed


def _copy(op: OperatorOp) -> OperatorOp:
    copy, block = op.clone(), op.parent_block()
    assert block is not None
    block.insert_op_before(copy, op)
    return copy
