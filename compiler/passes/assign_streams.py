"""The pass that gives every group a stream."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from compiler.analysis.streams import STREAM_ASSIGNMENTS
from compiler.analysis.units import graphs_of, group_graph, units
from compiler.errors import PipelineError
from compiler.passes.reorder import reorder_groups


@dataclass(frozen=True)
class AssignStreams(ModulePass):
    """Give every cluster, or every group that is in none, a stream.

    Requires: `fuse` ran. Ensures: every group has a `stream` below `streams`; groups of one
    `partition` share it and follow each other.

        %1 = dataflow.group "Conv_a" (%0) ...
        %2 = dataflow.group "Conv_b" (%0) ...
      becomes, with streams=2,
        %1 = dataflow.group "Conv_a" stream 0 (%0) ...
        %2 = dataflow.group "Conv_b" stream 1 (%0) ...
    """

    name = "assign-streams"

    policy: str = "opara"
    """A policy of `compiler.analysis.streams`."""
    streams: int = 4
    """The largest number of streams."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Assign streams in every `dataflow.graph` of the module."""
        if self.streams < 1:
            raise PipelineError(f"streams must be at least 1, not {self.streams}")
        for graph in graphs_of(op):
            groups = group_graph(graph)
            clusters = units(groups)
            stream_of = STREAM_ASSIGNMENTS[self.policy](clusters.dag, self.streams)
            for stream, members in zip(stream_of, clusters.members, strict=True):
                for v in members:
                    groups.groups[v].stream = IntegerAttr(stream, i64)
            order = [groups.groups[v] for members in clusters.members for v in members]
            reorder_groups(graph, order)
