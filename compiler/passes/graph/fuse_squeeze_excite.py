"""The pass that makes each squeeze-and-excitation one kernel."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.graph.fusion.squeeze_excite import (
    MEANS,
    find_squeeze_excites,
    fits_one_kernel,
)
from compiler.graph.network import operator_types, read_network
from compiler.graph.targets import target_of
from compiler.ir.edit import graphs_of
from compiler.passes.base import GraphPass
from compiler.passes.graph.group_maker import make_group


@dataclass(frozen=True)
class FuseSqueezeExcite(GraphPass):
    """Group the means of an image's channels, the two pointwise convolutions that compute a gate
    for each channel from them, and the Mul of image and gate.

    Requires: nothing; best before `fuse-operators`, after `canonicalize`. Ensures: in a graph for a
    target with such kernels (cuda with thread block clusters), every squeeze-and-excitation of a
    small image that `compiler.graph.fusion.squeeze_excite` finds is one group.

        %1 = dataflow.op "ReduceMean" (%x, ...) ...
        %2 = dataflow.op "Conv" (%1, %w) ...
        %3 = dataflow.op "Relu" (%2) ...
        %4 = dataflow.op "Conv" (%3, %v) ...
        %5 = dataflow.op "Sigmoid" (%4) ...
        %6 = dataflow.op "Mul" (%x, %5) ...
      becomes
        %6 = dataflow.group "ReduceMean_Conv_Relu_3f9a2c41d0e7" (%x, %w, %v) ... {...}
    """

    name = "fuse-squeeze-excite"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Group those of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            types = operator_types(graph)
            if target_of(graph).fuses_squeeze_excite and not types.isdisjoint(MEANS):
                network = read_network(graph)
                for match in find_squeeze_excites(network):
                    if fits_one_kernel(network, match):
                        operators = network.operators_at(match.operators)
                        make_group(operators, anchor=operators[-1].next_op)
