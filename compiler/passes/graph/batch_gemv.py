"""The pass that makes one product of several with the same matrix."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from compiler.errors import PipelineError
from compiler.graph.network import read_network
from compiler.graph.shared_weights import find_stacks
from compiler.ir.dataflow import ConstantOp, OperatorOp
from compiler.ir.edit import graphs_of, insert_before, replace, restore_order
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.ir.values import array_to_attribute, value_to_attribute
from compiler.passes.base import GraphPass


@dataclass(frozen=True)
class BatchGemv(GraphPass):
    """Stack the rows of products of few rows with the same matrix, so that it is read once.

    Requires: nothing; best before `fuse-operators`. Ensures: no two products of up to `max-rows`
    rows with the same matrix, of which neither waits for the other, stay apart.

        %2 = dataflow.op "MatMul" (%0, %w) ...
        %3 = dataflow.op "MatMul" (%1, %w) ...
      becomes
        %4 = dataflow.op "Concat" (%0, %1) {axis = 0 : i64} ...
        %5 = dataflow.op "MatMul" (%4, %w) ...
        %2, %3 = dataflow.op "Split" (%5, %sizes) {axis = 0 : i64} ...
    """

    name = "batch-gemv"

    max_rows: int = 16
    """The most rows of a product that is bound by reading its matrix."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Batch the products of every `dataflow.graph` of the module."""
        if self.max_rows < 0:
            raise PipelineError(f"max-rows must not be negative, not {self.max_rows}")
        for graph in graphs_of(op):
            network = read_network(graph)
            for stack in find_stacks(network, self.max_rows):
                _join([network.operations[i] for i in stack.products], stack.axis)
            restore_order(graph)


def _join(products: Sequence[OperatorOp], axis: int) -> None:
    """Replace products by one of all their rows."""
    first = products[0]
    rows = [shape_of(op.inputs[0].type)[axis] for op in products]
    place = {"axis": value_to_attribute(axis)}
    operands = [op.inputs[0] for op in products]
    joined = OperatorOp("Concat", operands, [_with_rows(operands[0].type, axis, rows)], place)
    product = OperatorOp(
        first.type_name,
        [joined.outputs[0], *list(first.inputs)[1:]],
        [_with_rows(first.outputs[0].type, axis, rows)],
        first.attributes,
        first.node_name,
    )
    sizes = ConstantOp(array_to_attribute(np.array(rows, dtype=np.int64)))
    results = [op.outputs[0].type for op in products]
    parts = OperatorOp("Split", [product.outputs[0], sizes.output], results, place)
    insert_before(first, joined, product, sizes, parts)
    for op, part in zip(products, parts.outputs, strict=True):
        replace(op, [part])


def _with_rows(type: Attribute, axis: int, rows: Sequence[int]) -> Attribute:
    shape = list(shape_of(type))
    shape[axis] = sum(rows)
    return tensor_type(dtype_of(type), tuple(shape))
