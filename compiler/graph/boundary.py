"""Which kernels touch a caller's memory: those that read a model's inputs or write its outputs."""

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp


def boundary_kernels(graph: GraphOp) -> set[str]:
    """The names of kernels whose groups touch inputs or outputs, directly or through views."""
    operations = list(graph.body.block.ops)
    given = _through_views(graph.body.block.args, operations)
    taken = _through_views(graph.results_yielded, reversed(operations))
    return {
        op.kernel.data
        for op in operations
        if isinstance(op, GroupOp) and op.kernel is not None
        if not given.isdisjoint(op.inputs) or not taken.isdisjoint(op.outputs)
    }


def _through_views(values: Iterable[SSAValue], operations: Iterable[Operation]) -> set[SSAValue]:
    """Values and all that views make of them, or make them of, in the order of the operations."""
    found = set(values)
    for op in operations:
        ends = {*op.operands, *op.results}
        if isinstance(op, OperatorOp) and not found.isdisjoint(ends):
            found |= ends
    return found
