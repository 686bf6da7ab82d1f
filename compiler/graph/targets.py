"""The target of a graph: recorded as text on the graph, asked as a `Target` or for its cache."""

from xdsl.dialects.builtin import ModuleOp, StringAttr

from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of
from compiler.target.caches import CACHES, TYPICAL_CACHE, data_caches
from compiler.target.target import CpuTarget, Target, parse_target


def target_of(graph: GraphOp) -> Target:
    """The target of a graph, a CPU where none is recorded; raises KernelError for a bad text."""
    return CpuTarget() if graph.target is None else parse_target(graph.target.data)


def own_cache_bytes(graph: GraphOp) -> int:
    """The bytes of a core's second-level cache, typical ones unless this host is meant.

    A GPU has 0.
    """
    target = target_of(graph)
    if target.is_gpu:
        return 0
    known = {} if target.architecture else data_caches(CACHES)
    return known.get(2, TYPICAL_CACHE)


def set_target(module: ModuleOp, target: str) -> None:
    """Record on each graph what it is compiled for: one pipeline's passes act by it."""
    for graph in graphs_of(module):
        graph.target = StringAttr(target)
