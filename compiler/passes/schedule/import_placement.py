"""`import-placement`: take partitions, streams, stages and order from a text."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.ir.dataflow import ControlOp
from compiler.ir.edit import graphs_of
from compiler.passes.base import SchedulePass
from compiler.passes.base.adapter import read_dag, write_placement
from compiler.scheduling.placement import Placement
from compiler.scheduling.placement_text import placement_from_text
from compiler.support.dag import DAG


@dataclass(frozen=True)
class ImportPlacement(SchedulePass):
    """Place groups as a schedule search did, in place of the three passes that use policies.

    Requires the groups that the placement was found for: `fuse-operators` and the later passes ran
    as they did then; raises PipelineError for another graph. Ensures what `partition-graph`,
    `assign-streams` and `order-launches` ensure. The pipeline that a searched schedule records has
    this pass, so that it gives the same schedule again without a search.

        %1 = dataflow.group "Conv_a" (%0) ...
        %2 = dataflow.group "Conv_b" (%0) ...
      becomes, with the placement of a search,
        %2 = dataflow.group "Conv_b" partition 0 stream 1 (%0) ...
        %1 = dataflow.group "Conv_a" partition 1 stream 0 (%0) ...
    """

    name = "import-placement"

    placement: str
    """The text that the search recorded; bodies of an If or a Loop have one stream."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Place the groups of every `dataflow.graph` of the module; raises PipelineError."""
        for graph in graphs_of(op):
            dag = read_dag(graph)
            body = isinstance(graph.parent_op(), ControlOp)
            placement = _in_order(dag) if body else placement_from_text(dag, self.placement)
            write_placement(graph, placement)


def _in_order(dag: DAG) -> Placement:
    """The placement of a body: one stream, in block order."""
    count = len(dag.costs)
    none = [None] * count
    first = [0] * count
    return Placement(range(count), partitions=none, streams=first, stages=none)
