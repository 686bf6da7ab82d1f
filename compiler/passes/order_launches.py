"""The pass that chooses the launch order."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from compiler.analysis.graph import subgraph
from compiler.analysis.ordering import ORDERINGS
from compiler.analysis.units import GroupGraph, demand_of, graphs_of, group_graph, units
from compiler.ir.dataflow import GroupOp
from compiler.passes.reorder import reorder_groups


@dataclass(frozen=True)
class OrderLaunches(ModulePass):
    """Put the groups into launch order: clusters among each other, then groups within clusters.

    Requires: `fuse` ran. Ensures: block order is the policy's launch order, every group comes
    after those it depends on, and the groups of one `partition` follow each other.

        %1 = dataflow.group "Relu" (%0) ...
        %2 = dataflow.group "Conv" (%0) ...
      becomes, with policy=critical-path,
        %2 = dataflow.group "Conv" (%0) ...
        %1 = dataflow.group "Relu" (%0) ...
    """

    name = "order-launches"

    policy: str = "critical-path"
    """A policy of `compiler.analysis.ordering`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Order every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            reorder_groups(graph, self._order(group_graph(graph)))

    def _order(self, groups: GroupGraph) -> list[GroupOp]:
        policy = ORDERINGS[self.policy]
        clusters = units(groups)
        demands = [demand_of([groups.groups[v] for v in c]) for c in clusters.members]
        order: list[GroupOp] = []
        for cluster in policy(clusters.dag, demands):
            members = clusters.members[cluster]
            inside = [demand_of([groups.groups[v]]) for v in members]
            within = policy(subgraph(groups.dag, members), inside)
            order.extend(groups.groups[members[i]] for i in within)
        return order
