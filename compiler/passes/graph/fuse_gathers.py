"""The pass that makes gathers that are joined one kernel."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.graph.cost import roofline_of
from compiler.graph.gathers import joined_gathers, shared_indices
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GraphOp, OperatorOp
from compiler.ir.edit import graphs_of
from compiler.passes.base import GraphPass
from compiler.passes.graph.group_maker import make_group


@dataclass(frozen=True)
class FuseGathers(GraphPass):
    """Group the gathers that a Concat joins, as a recommender's look-ups in its tables, with it;
    each gather takes its own index from an input.

    Requires: nothing; best before `fuse-operators`, after `canonicalize`. Ensures: every Concat of
    which all computed operands are its own gathers is one group with them, unless it is large or
    they are many (`compiler.graph.gathers`); no Gather or Slice of inputs or weights gives its
    result to several gathers as their indices only.

        %2 = dataflow.op "Gather" (%x, %0) {axis = 1} ...
        %3 = dataflow.op "Gather" (%table1, %2) ...
        %4 = dataflow.op "Gather" (%x, %1) {axis = 1} ...
        %5 = dataflow.op "Gather" (%table2, %4) ...
        %6 = dataflow.op "Concat" (%3, %5) ...
      becomes
        %6 = dataflow.group "Gather_Gather_Gather_3f9a2c41d0e7" (%x, %table1, %table2) ... {...}
    """

    name = "fuse-gathers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Group the gathers of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            for index in shared_indices(graph):
                _take_for_each(index)
            for members in joined_gathers(graph, roofline_of(target_of(graph))):
                _group(graph, members)


def _take_for_each(index: OperatorOp) -> None:
    """Give every user but the first an operator of its own."""
    block, value = index.parent_block(), index.outputs[0]
    assert block is not None
    for use in list(value.uses)[1:]:
        copy = index.clone()
        block.insert_op_before(copy, index)
        use.operation.operands[use.index] = copy.outputs[0]


def _group(graph: GraphOp, members: list[OperatorOp]) -> None:
    following = members[-1].next_op
    assert following is not None
    views = (op for op in graph.body.block.ops if isinstance(op, OperatorOp))
    group = make_group(members, frozenset(views))
    group.detach()
    graph.body.block.insert_op_before(group, following)
