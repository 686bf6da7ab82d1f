"""`keep-weights`: keep weights that several groups read in a core's own cache."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import PipelineError
from compiler.graph.targets import caches_of
from compiler.ir.edit import graphs_of
from compiler.passes.base import SchedulePass
from compiler.passes.base.adapter import read_dag, read_placement, weights_read, write_placement
from compiler.scheduling.reuse import keep_weights


@dataclass(frozen=True)
class KeepWeights(SchedulePass):
    """Order groups so that weights which several of them read stay in a core's own cache.

    Requires: `order-launches` ran. Ensures: block order is a launch order. On a CPU the steps of
    one recurrence come before those of another where a core's own cache, or else the last one,
    misses fewer bytes of weights then; recurrences whose weights fit the caches of two cores, not
    that of one, are in one stream, so that cores share each step. Partitions of several groups,
    and stages, stay as they are.

        %1 = dataflow.group "Step_of_a" stream 0 (%0, %a) ...
        %2 = dataflow.group "Step_of_b" stream 1 (%0, %b) ...
        %3 = dataflow.group "Step_of_a" stream 0 (%1, %a) ...
      becomes
        %1 = dataflow.group "Step_of_a" stream 0 (%0, %a) ...
        %3 = dataflow.group "Step_of_a" stream 0 (%1, %a) ...
        %2 = dataflow.group "Step_of_b" stream 1 (%0, %b) ...
    """

    name = "keep-weights"

    cache_bytes: int = 0
    """Bytes of a core's own cache, the only one; 0 for the target's second level, and its last."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Order the groups of every `dataflow.graph` of the module."""
        if self.cache_bytes < 0:
            raise PipelineError(f"cache-bytes must not be negative, not {self.cache_bytes}")
        for graph in graphs_of(op):
            # A GPU has none: its SMs share the cache that weights stay in.
            caches = caches_of(graph)
            if not caches:
                continue
            caches = (self.cache_bytes,) if self.cache_bytes else caches
            placement = read_placement(graph)
            reads = weights_read(graph)
            write_placement(graph, keep_weights(read_dag(graph), placement, reads, caches))
