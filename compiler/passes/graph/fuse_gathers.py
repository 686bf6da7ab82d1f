"""The pass that makes a Concat of gathers one kernel."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.graph.cost import roofline_of
from compiler.graph.gathers import fusable_gathers, shared_indices
from compiler.graph.targets import target_of
from compiler.ir.dataflow import OperatorOp
from compiler.ir.edit import clone_before, graphs_of
from compiler.passes.base import GraphPass
from compiler.passes.graph.group_maker import make_group


@dataclass(frozen=True)
class FuseGathers(GraphPass):
    """Group a Concat with the Gathers that it concatenates, such as a recommender's embedding
    look-ups; each Gather selects its own index from an input.

    Requires: nothing; best before `fuse-operators`, after `canonicalize`. Ensures: every Concat
    whose computed operands are all Gathers without other users is one group with them, unless it is
    large or they are many (`compiler.graph.gathers`); no Gather or Slice of inputs or weights is
    the index of several Gathers and nothing else.

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
                for use in list(index.outputs[0].uses)[1:]:
                    # Shared, it would be a separate kernel: its result would go through memory.
                    copy = clone_before(index, index)
                    use.operation.operands[use.index] = copy.outputs[0]
            for members in fusable_gathers(graph, roofline_of(target_of(graph))):
                views = (op for op in graph.body.block.ops if isinstance(op, OperatorOp))
                make_group(members, frozenset(views), members[-1].next_op)
