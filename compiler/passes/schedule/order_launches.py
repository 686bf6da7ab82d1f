"""`order-launches`: choose the launch order."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.ir.edit import graphs_of
from compiler.passes.base import SchedulePass
from compiler.passes.base.adapter import read_groups, read_placement, write_placement
from compiler.scheduling.placement import order_launches


@dataclass(frozen=True)
class OrderLaunches(SchedulePass):
    """Put the groups into launch order: partitions, then the groups in each.

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
            groups = read_groups(graph)
            placement = read_placement(graph)
            write_placement(graph, order_launches(groups, placement, self.policy))
