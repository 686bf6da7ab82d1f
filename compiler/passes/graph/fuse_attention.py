"""The pass that makes each attention one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from compiler.graph.attention import find_attentions, may_attend
from compiler.graph.network import operator_types, read_network
from compiler.graph.targets import target_of
from compiler.ir.dataflow import OperatorOp
from compiler.ir.edit import clone_before, graphs_of
from compiler.passes.base import GraphPass
from compiler.passes.graph.group_maker import make_group


@dataclass(frozen=True)
class FuseAttention(GraphPass):
    """Group softmax(Q K^T) V into one kernel, with scales, masks and views of the batch in between,
    and the transposes and slices of its operands and its result.

    Requires: nothing; best before `fuse-operators`, after `canonicalize`. Ensures: in a graph for a
    target with such kernels (cuda, cpu), every attention that `compiler.graph.attention` finds is
    one group, on a CPU those of float32 and enough rows; other graphs stay as they are.

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
            if target_of(graph).fuses_attention and may_attend(operator_types(graph)):
                network = read_network(graph)
                on_gpu = target_of(graph).is_gpu
                for attention in find_attentions(network):
                    if on_gpu or attention.pays_on_cpu(network):
                        operators = network.operators_at(attention.operators)
                        following = operators[-1].next_op
                        make_group(_exclusive(operators), anchor=following)


def _exclusive(operators: Sequence[OperatorOp]) -> list[OperatorOp]:
    """The operators, with clones of those that others use too; the last one computes the result."""
    needed = _needed_outside(operators)
    copies = dict[SSAValue, SSAValue]()
    exclusive: list[OperatorOp] = []
    for op in operators:
        member = clone_before(op, op) if op in needed else op
        if member is not op:
            copies.update(zip(op.results, member.results, strict=True))
        member.operands = [copies.get(value, value) for value in member.operands]
        exclusive.append(member)
    return exclusive


def _needed_outside(operators: Sequence[OperatorOp]) -> set[Operation]:
    """The operators, except the last, that others use directly or through one of these."""
    inside = set[Operation](operators)
    needed = set[Operation]()
    for op in reversed(operators[:-1]):
        users = {use.operation for value in op.results for use in value.uses}
        if not users <= inside - needed:
            needed.add(op)
    return needed
