"""The pass that cuts a graph into clusters."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.dag import DAG, quotient
from compiler.errors import PipelineError
from compiler.ir.edit import graphs_of, reorder_groups
from compiler.ir.types import int64
from compiler.passes.base import SchedulePass
from compiler.scheduling.policies.partitioning import PARTITIONINGS
from compiler.scheduling.units import group_graph


@dataclass(frozen=True)
class PartitionGraph(SchedulePass):
    """Cut the graph into clusters of groups; each is launched as one unit on one stream.

    Requires: `fuse-operators` ran. Ensures: every group has a `partition`, clusters do not wait for
    each other in a circle, and the groups of a cluster follow each other; older streams and stages
    are dropped.

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
    """About the largest number of groups in a cluster."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Partition every `dataflow.graph` of the module."""
        if self.max_nodes < 1:
            raise PipelineError(f"max-nodes must be at least 1, not {self.max_nodes}")
        for graph in graphs_of(op):
            groups = group_graph(graph)
            clusters = self._clusters(groups.dag)
            for cluster, members in enumerate(clusters):
                for v in members:
                    groups.groups[v].partition = int64(cluster)
                    groups.groups[v].stream = groups.groups[v].stage = None
            reorder_groups(graph, [groups.groups[v] for members in clusters for v in members])

    def _clusters(self, dag: DAG) -> Sequence[Sequence[int]]:
        cluster_of = PARTITIONINGS[self.policy](dag, self.max_nodes)
        try:
            if len(cluster_of) != len(dag):
                raise ValueError(f"it gives {len(cluster_of)} clusters for {len(dag)} nodes")
            return quotient(dag, cluster_of).members
        except ValueError as error:
            message = f"partition policy {self.policy!r} is wrong: {error}"
            raise PipelineError(message) from error
