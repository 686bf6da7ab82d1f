"""The pass that batches skinny MatMuls and Gemms which share a weight."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from compiler.errors import PipelineError
from compiler.graph.network import operator_types, read_network
from compiler.graph.shared_weights import find_stacks
from compiler.ir.dataflow import OperatorOp
from compiler.ir.edit import graphs_of, insert_before, replace, restore_order
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.ir.values import value_to_attribute
from compiler.net.operators.contractions import GEMMS
from compiler.passes.base import GraphPass


@dataclass(frozen=True)
class BatchGemv(GraphPass):
    """Batch skinny MatMuls and Gemms that share a weight, so that it is read once.

    Requires: nothing; best before `fuse-operators`. Ensures: no two independent MatMuls or Gemms of
    up to `max-rows` rows have the same weight.

        %2 = dataflow.op "MatMul" (%0, %w) ...
        %3 = dataflow.op "MatMul" (%1, %w) ...
      becomes
        %4 = dataflow.op "Concat" (%0, %1) {axis = 0 : i64} ...
        %5 = dataflow.op "MatMul" (%4, %w) ...
        %2, %3 = dataflow.op "Split" (%5, %sizes) {axis = 0 : i64} ...
    """

    name = "batch-gemv"

    max_rows: int = 16
    """The most rows of a GEMM whose time is that of reading its weight."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Batch the GEMMs of every `dataflow.graph` of the module."""
        if self.max_rows < 0:
            raise PipelineError(f"max-rows must not be negative, not {self.max_rows}")
        for graph in graphs_of(op):
            if operator_types(graph).isdisjoint(GEMMS):
                continue
            network = read_network(graph)
            stacks = find_stacks(network, self.max_rows)
            for stack in stacks:
                _batch(network.operators_at(stack.gemms), stack.axis)
            if stacks:
                restore_order(graph)


def _batch(gemms: Sequence[OperatorOp], axis: int) -> None:
    """Replace GEMMs by one on the Concat of their rows."""
    first = gemms[0]
    rows = [shape_of(op.inputs[0].type)[axis] for op in gemms]
    along = {"axis": value_to_attribute(axis)}
    operands = [op.inputs[0] for op in gemms]
    concat = OperatorOp("Concat", operands, [_with_rows(operands[0].type, axis, rows)], along)
    gemm = OperatorOp(
        first.type_name,
        [concat.outputs[0], *list(first.inputs)[1:]],
        [_with_rows(first.outputs[0].type, axis, rows)],
        first.attributes,
        first.node_name,
    )
    results = [op.outputs[0].type for op in gemms]
    sizes = {"sizes": value_to_attribute(rows)}
    split = OperatorOp("Split", [gemm.outputs[0]], results, along | sizes)
    insert_before(first, concat, gemm, split)
    for op, output in zip(gemms, split.outputs, strict=True):
        replace(op, [output])


def _with_rows(type: Attribute, axis: int, rows: Sequence[int]) -> Attribute:
    shape = list(shape_of(type))
    shape[axis] = sum(rows)
    return tensor_type(dtype_of(type), tuple(shape))
