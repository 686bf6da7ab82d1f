"""Which kernels read a model's inputs or write its outputs, which are the caller's memory."""

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp


def boundary_kernels(graph: GraphOp) -> set[str]:
    """The names of kernels whose groups touch inputs or outputs, directly or through views."""
    operations = list(graph.body.block.ops)
    inputs = _through_views(graph.body.block.args, operations)
    outputs = _through_views(graph.results_yielded, reversed(operations))
    return {
        op.kernel.data
        for op in operations
        if isinstance(op, GroupOp) and op.kernel is not None
        if not inputs.isdisjoint(op.inputs) or not outputs.isdisjoint(op.outputs)
    }


def _through_views(values: Iterable[SSAValue], operations: Iterable[Operation]) -> set[SSAValue]:
    """The values and their aliases through views, which are followed in the given order."""
    aliases = set(values)
    for op in operations:
        ends = {*op.operands, *op.results}
        if isinstance(op, OperatorOp) and not aliases.isdisjoint(ends):
            aliases |= ends
    return aliases
