"""The pass that makes dynamic quantisations one kernel each."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.graph.fusion.ranges import find_ranges
from compiler.graph.network import operator_types, read_network
from compiler.graph.targets import target_of
from compiler.ir.dataflow import OperatorOp
from compiler.ir.edit import graphs_of
from compiler.passes.base import GraphPass
from compiler.passes.graph.group_maker import make_group


@dataclass(frozen=True)
class FuseRanges(GraphPass):
    """Group the least and the greatest element of a tensor with the scalars that follow from them
    and the elementwise operators on the tensor that use those: a dynamic quantisation.

    Requires: nothing; best before `fuse-operators`, after `canonicalize`. Ensures: in a graph for a
    GPU, every range that `compiler.graph.fusion.ranges` finds is one group.

        %1 = dataflow.op "ReduceMin" (%x, ...) : ... -> tensor<f32>
        %2 = dataflow.op "ReduceMax" (%x, ...) : ... -> tensor<f32>
        %3 = dataflow.op "Sub" (%2, %1) : ... -> tensor<f32>
        %4 = dataflow.op "Div" (%x, %3) ...
      becomes
        %3, %4 = dataflow.group "ReduceMin_ReduceMax_Sub_3f9a2c41d0e7" (%x) ... {...}
    """

    name = "fuse-ranges"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Group those of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            if target_of(graph).is_gpu and "ReduceMin" in operator_types(graph):
                network = read_network(graph)
                for tensor_range in find_ranges(network):
                    # Make a group where the first operator is: it needs the tensor only, others
                    # may follow it.
                    operators = network.operators_at(tensor_range.operators)
                    anchor = operators[0].next_op
                    while isinstance(anchor, OperatorOp) and anchor in operators:
                        anchor = anchor.next_op
                    make_group(operators, anchor=anchor)
