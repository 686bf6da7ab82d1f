"""`partition-graph`: divide the graph into partitions."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import PipelineError
from compiler.ir.edit import graphs_of
from compiler.passes.base import SchedulePass
from compiler.passes.base.adapter import read_dag, write_placement
from compiler.scheduling.placement import partition_graph


@dataclass(frozen=True)
class PartitionGraph(SchedulePass):
    """Cut the graph into partitions of groups; each is launched as one, on one stream.

    Requires: `fuse-operators` ran. Ensures: every group has a `partition`, partitions do not depend
    on each other in a cycle, and the groups of a partition follow each other; older streams and
    stages are dropped.

        %1 = dataflow.group "Conv_a" (%0) ...
        %2 = dataflow.group "Conv_b" (%0) ...
        %3 = dataflow.group "Relu" (%1) ...
      becomes, with max-nodes=2,
        %1 = dataflow.group "Conv_a" partition 0 (%0) ...
        %3 = dataflow.group "Relu" partition 0 (%1) ...
        %2 = dataflow.group "Conv_b" partition 1 (%0) ...
    """

    name = "partition-graph"

    policy: str = "ppd"
    """A policy of `compiler.scheduling.policies.partitioning`, or `FILE.py:FUNCTION`."""
    max_nodes: int = 8
    """About the largest number of groups in a partition."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Partition every `dataflow.graph` of the module."""
        if self.max_nodes < 1:
            raise PipelineError(f"max-nodes must be at least 1, not {self.max_nodes}")
        for graph in graphs_of(op):
            write_placement(graph, partition_graph(read_dag(graph), self.policy, self.max_nodes))
