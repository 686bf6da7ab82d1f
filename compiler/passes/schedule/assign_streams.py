"""`assign-streams`: give every group a stream."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import PipelineError
from compiler.ir.dataflow import ControlOp
from compiler.ir.edit import graphs_of
from compiler.passes.base import SchedulePass
from compiler.passes.base.adapter import read_dag, read_placement, write_placement
from compiler.scheduling.placement import assign_streams


@dataclass(frozen=True)
class AssignStreams(SchedulePass):
    """Give every partition, or every group that is in none, a stream.

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
    """The largest number of streams; 0 for as many as the policy wants. A body has one."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Assign streams in every `dataflow.graph` of the module."""
        if self.streams < 0:
            raise PipelineError(f"streams must be at least 0, not {self.streams}")
        for graph in graphs_of(op):
            dag = read_dag(graph)
            placement = read_placement(graph)
            # A body runs its tasks one after another.
            streams = 1 if isinstance(graph.parent_op(), ControlOp) else self.streams
            write_placement(graph, assign_streams(dag, placement, self.policy, streams))
