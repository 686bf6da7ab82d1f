"""The pass that makes matrix products of convolutions which cut an image into patches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.graph.patches import Patches, find_patches
from compiler.graph.weights import reshaped_key
from compiler.ir.dataflow import ConstantOp, OperatorOp, WeightOp
from compiler.ir.edit import graphs_of
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.ir.values import Value, array_to_attribute, value_to_attribute
from compiler.passes.base import GraphPass


@dataclass(frozen=True)
class ConvToGemm(GraphPass):
    """Multiply the patches of an image, gathered once, where a convolution's windows are patches.

    Requires: nothing; best before `canonicalize`, which removes the views that what follows takes
    back. Ensures: no convolution of an image without blocks of channels has windows that meet, do
    not overlap and are large.

        %1 = dataflow.op "Conv" (%x, %w, %b) {strides = [16, 16]} : tensor<1x3x32x48xf32>, ...
      becomes
        %2 = dataflow.op "Reshape" (%x, ...) : ... -> tensor<1x3x2x16x3x16xf32>
        %3 = dataflow.op "Transpose" (%2) {perm = [0, 2, 4, 1, 3, 5]}
        %4 = dataflow.op "Reshape" (%3, ...) : ... -> tensor<6x768xf32>
        %5 = dataflow.op "Gemm" (%4, %w, %b) {transB = 1}
        %6 = dataflow.op "Reshape" (%5, ...) : ... -> tensor<1x6x8xf32>
        %7 = dataflow.op "Transpose" (%6) {perm = [0, 2, 1]}
        %1 = dataflow.op "Reshape" (%7, ...) : ... -> tensor<1x8x2x3xf32>
    """

    name = "conv-to-gemm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the convolutions of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            for each in list(graph.body.block.ops):
                if isinstance(each, OperatorOp) and (patches := find_patches(each)):
                    _multiply(each, patches)


def _multiply(conv: OperatorOp, patches: Patches) -> None:
    """Replace a convolution by the product of its patches and its weight as a matrix."""
    old = conv.inputs[1].owner
    assert isinstance(old, WeightOp)
    filters, (rows, depth) = shape_of(old.output.type)[0], patches.matrix
    weight = WeightOp(
        reshaped_key(old.key.data, (filters, depth)),
        tensor_type(dtype_of(old.output.type), (filters, depth)),
    )
    write = _Writer(conv)
    write.insert(weight)
    gathered = write.transposed(write.reshaped(conv.inputs[0], patches.cut), patches.permutation)
    matrix = write.reshaped(gathered, patches.matrix)
    operands = [matrix, weight.output, *list(conv.inputs)[2:]]
    product = write.operator("Gemm", operands, (rows, filters), transB=1)
    batch = patches.batch
    image = write.reshaped(product, (batch, rows // batch, filters))
    result = write.reshaped(write.transposed(image, (0, 2, 1)), shape_of(conv.outputs[0].type))
    conv.outputs[0].replace_all_uses_with(result)
    conv.detach()
    conv.erase()


@dataclass(frozen=True)
class _Writer:
    """Writes operators before a convolution, under its name."""

    conv: OperatorOp

    def insert(self, op: WeightOp | ConstantOp | OperatorOp) -> None:
        block = self.conv.parent_block()
        assert block is not None
        block.insert_op_before(op, self.conv)

    def operator(
        self, type: str, operands: Sequence[SSAValue], shape: Sequence[int], **attributes: Value
    ) -> SSAValue:
        result = tensor_type(dtype_of(self.conv.outputs[0].type), tuple(shape))
        values = {name: value_to_attribute(value) for name, value in attributes.items()}
        op = OperatorOp(type, operands, [result], values, self.conv.node_name)
        self.insert(op)
        return op.outputs[0]

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        extents = ConstantOp(array_to_attribute(np.array(shape, dtype=np.int64)))
        self.insert(extents)
        return self.operator("Reshape", [value, extents.output], shape)

    def transposed(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        shape = shape_of(value.type)
        moved = [shape[axis] for axis in permutation]
        return self.operator("Transpose", [value], moved, perm=list(permutation))
