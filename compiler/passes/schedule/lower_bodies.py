"""Lowering of the bodies of an If or a Loop to graphs over the memory of its task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.rewriter import Rewriter

from compiler.ir import dataflow, taskflow, taskflow_memory
from compiler.ir.control import types_of
from compiler.schedule.control import workspaces_of


@dataclass(frozen=True)
class LoweredBodies:
    """The graphs of bodies; all have the `weights` that any of them reads as their last inputs."""

    graphs: Sequence[taskflow.GraphOp]
    weights: Sequence[taskflow_memory.WeightOp]


def lower_bodies(
    group: dataflow.GroupOp, lower: Callable[[dataflow.GraphOp], taskflow.GraphOp]
) -> LoweredBodies:
    """Lower the bodies of a group's If or Loop, and set the group's workspaces."""
    control = group.control
    assert control is not None
    graphs = [lower(body) for body in control.graphs]
    weights = {op.allocation_name: op for graph in graphs for op in _weights(graph)}
    copies = [op.clone() for op in weights.values()]
    for graph in graphs:
        # The branches of an If have the same inputs: each body gets the weights of all.
        weights_read = {op.allocation_name: op for op in _weights(graph)}
        names = [weight.allocation_name for weight in copies]
        for name, weight in zip(names, copies, strict=True):
            graph.input_names = ArrayAttr([*graph.input_names, StringAttr(name)])
            position = len(graph.input_names) - 1
            argument = graph.body.block.insert_arg(weight.result.type, position)
            if name in weights_read:
                Rewriter.replace_op(weights_read[name], [], [argument])
    arena = max(graph.arena_bytes for graph in graphs)
    sizes = workspaces_of(control.form, types_of(group.outputs), arena)
    group.workspaces = ArrayAttr([IntegerAttr(size, i64) for size in sizes])
    return LoweredBodies(graphs, copies)


def _weights(graph: taskflow.GraphOp) -> list[taskflow_memory.WeightOp]:
    return [op for op in graph.body.block.ops if isinstance(op, taskflow_memory.WeightOp)]
