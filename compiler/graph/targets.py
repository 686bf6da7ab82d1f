"""The target of a graph: recorded as text on the graph, asked as a `Target` or for its caches."""

from xdsl.dialects.builtin import ModuleOp, StringAttr

from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of
from compiler.target.caches import (
    CACHES,
    TYPICAL_CACHE,
    TYPICAL_LAST_CACHE,
    data_caches,
    last_cache_bytes,
)
from compiler.target.target import CpuTarget, Target, parse_target


def target_of(graph: GraphOp) -> Target:
    """The target of a graph, a CPU where none is recorded; raises KernelError for a bad text."""
    return CpuTarget() if graph.target is None else parse_target(graph.target.data)


def caches_of(graph: GraphOp) -> tuple[int, ...]:
    """The bytes of the second-level cache of a core and of the last one; none on a GPU.

    They are typical ones unless this host is meant.
    """
    target = target_of(graph)
    if target.is_gpu:
        return ()
    if target.architecture:
        return TYPICAL_CACHE, TYPICAL_LAST_CACHE
    return data_caches(CACHES).get(2, TYPICAL_CACHE), last_cache_bytes()


def set_target(module: ModuleOp, target: str) -> None:
    """Record on each graph what it is compiled for: one pipeline's passes act by it."""
    for graph in graphs_of(module):
        graph.target = StringAttr(target)
