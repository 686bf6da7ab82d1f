"""Which kernels touch memory that moves: a model's inputs and outputs, or tensors of bodies."""

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp


def boundary_kernels(graph: GraphOp) -> set[str]:
    """The names of kernels whose groups touch inputs or outputs, directly or through views.

    Those of bodies are among them: what a loop carries is elsewhere in each iteration.
    """
    operations = list(graph.body.block.ops)
    inputs = _through_views(graph.body.block.args, operations)
    outputs = _through_views(graph.results_yielded, reversed(operations))
    touching = [
        op
        for op in operations
        if isinstance(op, GroupOp)
        if not inputs.isdisjoint(op.inputs) or not outputs.isdisjoint(op.outputs)
    ]
    in_bodies = (
        inner for op in operations if isinstance(op, GroupOp) and op.control for inner in op.walk()
    )
    named = (op for op in (*touching, *in_bodies) if isinstance(op, GroupOp))
    return {op.kernel.data for op in named if op.kernel is not None}


def _through_views(values: Iterable[SSAValue], operations: Iterable[Operation]) -> set[SSAValue]:
    """The values and their aliases through views, which are followed in the given order."""
    aliases = set(values)
    for op in operations:
        ends = {*op.operands, *op.results}
        if isinstance(op, OperatorOp) and not aliases.isdisjoint(ends):
            aliases |= ends
    return aliases
