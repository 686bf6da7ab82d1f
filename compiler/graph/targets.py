"""What a graph is compiled for: recorded as text on the graph, asked as a Target."""

from xdsl.dialects.builtin import ModuleOp, StringAttr

from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of
from compiler.target.target import CpuTarget, Target, parse_target


def target_of(graph: GraphOp) -> Target:
    """The target of a graph, a CPU where none is recorded; raises KernelError for a bad text."""
    return CpuTarget() if graph.target is None else parse_target(graph.target.data)


def set_target(module: ModuleOp, target: str) -> None:
    """Record on each graph what it is compiled for: one pipeline's passes act by it."""
    for graph in graphs_of(module):
        graph.target = StringAttr(target)
