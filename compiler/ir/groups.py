"""A graph with its groups looked through: every operator in order, values across borders."""

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from compiler.errors import ModelError
from compiler.ir.dataflow import GraphOp, GroupOp


def graph_of(module: ModuleOp) -> GraphOp:
    """The module's only `dataflow.graph`; raises ModelError where there is none."""
    graphs = [op for op in module.ops if isinstance(op, GraphOp)]
    if len(graphs) != 1:
        raise ModelError(
            f"expected one dataflow.graph, found {len(graphs)}: "
            "only IR from before lower-to-taskflow can be exported or interpreted"
        )
    return graphs[0]


def operators(graph: GraphOp) -> Iterable[Operation]:
    """Every operation in order, with groups replaced by what they hold."""
    for op in graph.body.block.ops:
        yield from op.body.block.ops if isinstance(op, GroupOp) else (op,)


def outer_value(value: SSAValue) -> SSAValue:
    """The value outside that a group's argument stands for, or a group's result yields."""
    if isinstance(value, BlockArgument):
        parent = value.block.parent_op()
        group = isinstance(parent, GroupOp)
        return outer_value(parent.inputs[value.index]) if group else value
    if isinstance(value, OpResult) and isinstance(value.op, GroupOp):
        return outer_value(value.op.results_yielded[value.index])
    return value
