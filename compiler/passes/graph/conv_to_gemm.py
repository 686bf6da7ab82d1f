"""The pass that turns patch embeddings, convolutions whose stride is their kernel, into GEMMs."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.graph.patches import Patches, find_patches
from compiler.graph.rewriting.weights import reshaped_key
from compiler.ir.dataflow import OperatorOp, WeightOp
from compiler.ir.edit import graphs_of, insert_before, like_before, replace
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.passes.base import GraphPass


@dataclass(frozen=True)
class ConvToGemm(GraphPass):
    """Rewrite a Conv whose stride is its kernel (patch embedding) as Reshape, Transpose and Gemm.

    Requires: nothing; best before `canonicalize`, which removes reshapes that cancel out. Ensures:
    no such Conv with large patches is left unless its channels fill whole blocks.

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
            for conv in list(graph.body.block.ops):
                if isinstance(conv, OperatorOp) and (patches := find_patches(conv)):
                    _rewrite(conv, patches)


def _rewrite(conv: OperatorOp, patches: Patches) -> None:
    """Replace a convolution by a Gemm of its patches with its weight as a matrix."""
    old = conv.inputs[1].owner
    assert isinstance(old, WeightOp)
    filters = shape_of(old.output.type)[0]
    rows, depth = patches.matrix
    weight = WeightOp(
        reshaped_key(old.key.data, (filters, depth)),
        tensor_type(dtype_of(old.output.type), (filters, depth)),
    )
    insert_before(conv, weight)
    # Rows of the GEMM are patches, so each one's elements must be contiguous.
    patches_first = _transposed(
        conv, _reshaped(conv, conv.inputs[0], patches.split_shape), patches.permutation
    )
    matrix = _reshaped(conv, patches_first, patches.matrix)
    operands = [matrix, weight.output, *list(conv.inputs)[2:]]
    gemm = like_before(conv, "Gemm", operands, (rows, filters), transB=1)
    batch = patches.batch
    image = _reshaped(conv, gemm, (batch, rows // batch, filters))
    channels_first = _transposed(conv, image, (0, 2, 1))
    replace(conv, [_reshaped(conv, channels_first, shape_of(conv.outputs[0].type))])


def _reshaped(conv: OperatorOp, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    return like_before(conv, "Reshape", [value], shape, shape=list(shape))


def _transposed(conv: OperatorOp, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
    moved = [shape_of(value.type)[axis] for axis in permutation]
    return like_before(conv, "Transpose", [value], moved, perm=list(permutation))
