"""The pass that chooses the launch order."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.dag import DAG, is_order, subgraph
from compiler.errors import PipelineError
from compiler.graph.cost import Work, works_of
from compiler.ir.dataflow import GroupOp
from compiler.ir.edit import graphs_of, reorder_groups
from compiler.passes.base import SchedulePass
from compiler.scheduling.policies.ordering import ORDERINGS, Demand
from compiler.scheduling.units import GroupGraph, demand_of, group_graph, stage_of, units


@dataclass(frozen=True)
class OrderLaunches(SchedulePass):
    """Put the groups into launch order: clusters among each other, then groups within clusters.

    Requires: `fuse-operators` ran. Ensures: block order is the policy's launch order, every group
    comes after those it depends on, stages come one after another, and the groups of one
    `partition` follow each other.

        %1 = dataflow.group "Relu" (%0) ...
        %2 = dataflow.group "Conv" (%0) ...
      becomes, with policy=critical-path,
        %2 = dataflow.group "Conv" (%0) ...
        %1 = dataflow.group "Relu" (%0) ...
    """

    name = "order-launches"

    policy: str = "critical-path"
    """A policy of `compiler.scheduling.policies.ordering`, or `FILE.py:FUNCTION`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Order every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            reorder_groups(graph, self._order(group_graph(graph)))

    def _order(self, groups: GroupGraph) -> list[GroupOp]:
        clusters = units(groups)
        works = works_of(groups.groups)
        demands = [demand_of([works[v] for v in c]) for c in clusters.members]
        order = self._apply(clusters.dag, demands)
        order.sort(key=lambda cluster: stage_of(groups.groups[clusters.members[cluster][0]]))
        within = (self._within(groups.dag, works, clusters.members[c]) for c in order)
        return [groups.groups[v] for members in within for v in members]

    def _within(self, dag: DAG, works: Sequence[Work], members: Sequence[int]) -> Sequence[int]:
        """The nodes of a cluster in launch order."""
        if len(members) == 1:
            return members
        order = self._apply(subgraph(dag, members), [demand_of([works[v]]) for v in members])
        return [members[i] for i in order]

    def _apply(self, dag: DAG, demands: Sequence[Demand]) -> list[int]:
        order = list(ORDERINGS[self.policy](dag, demands))
        if not is_order(dag, order):
            raise PipelineError(f"order policy {self.policy!r} is wrong: not a topological order")
        return order
