"""The pass that makes one operator of what exporters write for GroupNormalization."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.graph.fusion.group_norms import find_group_norm
from compiler.graph.targets import target_of
from compiler.ir.dataflow import OperatorOp, WeightOp
from compiler.ir.edit import erase_dead, graphs_of, insert_before, like_before, replace
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.passes.base import GraphPass

EPSILON = 1e-5
"""ONNX's default."""


@dataclass(frozen=True)
class FuseGroupNorm(GraphPass):
    """Rewrite an InstanceNormalization of reshaped channels, with the scale and bias of each
    channel that follow, as the GroupNormalization that was exported so.

    Requires: nothing; best after `canonicalize`. Ensures: in a graph for a GPU, whose kernels
    normalise groups of channels in any layout, no such operators are left.

        %1 = dataflow.op "Reshape" (%x, ...) : ... -> tensor<1x32x10240xf32>
        %2 = dataflow.op "InstanceNormalization" (%1, %ones, %zeros)
        %3 = dataflow.op "Reshape" (%2, ...) : ... -> tensor<1x320x32x32xf32>
        %4 = dataflow.op "Mul" (%3, %scale)
        %5 = dataflow.op "Add" (%4, %bias)
      becomes
        %5 = dataflow.op "GroupNormalization" (%x, %scale, %bias) {num_groups = 32}
    """

    name = "fuse-group-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the normalisations of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            if not target_of(graph).is_gpu:
                continue
            for add in list(graph.body.block.ops):
                if isinstance(add, OperatorOp) and (norm := find_group_norm(add)):
                    shape = shape_of(add.outputs[0].type)
                    dtype = dtype_of(add.outputs[0].type)
                    vector = tensor_type(dtype, (shape[1],))
                    scale, bias = (WeightOp(key, vector) for key in (norm.scale, norm.bias))
                    insert_before(add, scale, bias)
                    attributes = {
                        "epsilon": norm.normalization["epsilon"],
                        "num_groups": norm.groups,
                    }
                    operands = [norm.image, scale.output, bias.output]
                    replace(
                        add, [like_before(add, "GroupNormalization", operands, shape, **attributes)]
                    )
            erase_dead(list(graph.body.block.ops))
