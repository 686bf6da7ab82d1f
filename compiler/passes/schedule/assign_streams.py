"""The pass that gives every group a stream."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.dag import DAG
from compiler.errors import PipelineError
from compiler.ir.edit import graphs_of, reorder_groups
from compiler.ir.types import int64
from compiler.passes.base import SchedulePass
from compiler.scheduling.assignment import Assignment, check_assignment
from compiler.scheduling.policies.streams import STREAM_ASSIGNMENTS
from compiler.scheduling.units import group_graph, units


@dataclass(frozen=True)
class AssignStreams(SchedulePass):
    """Give every cluster, or every group that is in none, a stream.

    Requires: `fuse-operators` ran. Ensures: every group has a `stream` below `streams`, and a
    `stage` where the policy has stages; groups of one `partition` share both and follow each other;
    block order is the policy's launch order.

        %1 = dataflow.group "Conv_a" (%0) ...
        %2 = dataflow.group "Conv_b" (%0) ...
      becomes, with streams=2,
        %1 = dataflow.group "Conv_a" stream 0 (%0) ...
        %2 = dataflow.group "Conv_b" stream 1 (%0) ...
    """

    name = "assign-streams"

    policy: str = "opara"
    """A policy of `compiler.scheduling.policies.streams`, or `FILE.py:FUNCTION`."""
    streams: int = 4
    """The largest number of streams; 0 for as many as the policy wants."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Assign streams in every `dataflow.graph` of the module."""
        if self.streams < 0:
            raise PipelineError(f"streams must be at least 0, not {self.streams}")
        for graph in graphs_of(op):
            groups = group_graph(graph)
            clusters = units(groups)
            found = self._assign(clusters.dag)
            stages = found.stages or [None] * len(clusters.dag)
            for stream, stage, members in zip(found.streams, stages, clusters.members, strict=True):
                for v in members:
                    groups.groups[v].stream = int64(stream)
                    groups.groups[v].stage = None if stage is None else int64(stage)
            order = [v for cluster in found.launch_order() for v in clusters.members[cluster]]
            reorder_groups(graph, [groups.groups[v] for v in order])

    def _assign(self, dag: DAG) -> Assignment:
        streams = self.streams or max(1, len(dag))
        found = STREAM_ASSIGNMENTS[self.policy](dag, streams)
        try:
            check_assignment(dag, streams, found)
        except PipelineError as error:
            raise PipelineError(f"stream policy {self.policy!r} is wrong: {error}") from error
        return found
