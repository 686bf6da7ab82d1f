"""The pass that fuses MatMuls, or convolutions, of one tensor horizontally."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from compiler.graph.cost import roofline_of
from compiler.graph.fusion.slices import part_before
from compiler.graph.network import read_network
from compiler.graph.rewriting.weights import concatenated_key
from compiler.graph.siblings import find_families, head_size, weight_axis
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GraphOp, OperatorOp, WeightOp
from compiler.ir.edit import (
    graphs_of,
    insert_before,
    like_before,
    replace,
    restore_order,
)
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.net.operators.injective import TakenIndices, slice_of
from compiler.passes.base import GraphPass

SMALLER_TILES = 2
"""The tiles of half the size with which MatMuls of fewer results than fill the device take it."""


@dataclass(frozen=True)
class FuseSiblings(GraphPass):
    """Horizontal fusion of MatMuls (Q, K and V) or convolutions that share an input.

    Requires: nothing; best before `fuse-attention`, which reads slices of the fused result in
    place. Ensures in a graph for a target with such kernels (cuda): MatMuls of one tensor with
    constant weights that together fill the device (of others if asked) are one MatMul, where only
    attention and kernels that move elements read the results; if asked, convolutions of one image
    and shape whose results can be views of one result are one convolution. The key of a
    concatenated weight names its parts.

        %2 = dataflow.op "MatMul" (%0, %a) ...
        %3 = dataflow.op "MatMul" (%0, %b) ...
      becomes
        %ab = dataflow.weight "{\\"operator\\": \\"Concat\\", ...}" ...
        %4 = dataflow.op "MatMul" (%0, %ab) ...
        %2 = dataflow.op "Slice" (%4, ...) ...
        %3 = dataflow.op "Slice" (%4, ...) ...
    """

    name = "fuse-siblings"

    matmuls: bool = False
    """Fuse MatMuls that leave SMs idle; on an H200 they ran faster on separate streams."""
    convolutions: bool = False
    """Fuse convolutions; on an H200 they ran faster on separate streams."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fuse the siblings of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            if target_of(graph).fuses_siblings:
                self._fuse(graph)

    def _fuse(self, graph: GraphOp) -> None:
        network = read_network(graph)
        filling = roofline_of(target_of(graph)).filling
        busy = None if filling is None else filling // SMALLER_TILES
        families = find_families(network, 0 if self.matmuls else busy, self.convolutions)
        for family in families:
            # Replace siblings by one, and their results by slices of its result.
            positions = [
                network.operators_at(branch[position] for branch in family.branches)
                for position in range(len(family.branches[0]))
            ]
            branch_values = [op.inputs[0] for op in positions[0]]
            fused = positions[0][0].inputs[0]
            for position, branches in enumerate(positions):
                node = network.operators[family.branches[0][position]]
                operands = [
                    fused
                    if value is branch_values[0]
                    else _operand(branches, i, weight_axis(node, i))
                    for i, value in enumerate(branches[0].inputs)
                ]
                branch_values = [op.outputs[0] for op in branches]
                shape = list(shape_of(branches[0].outputs[0].type))
                shape[family.axis] = sum(
                    shape_of(op.outputs[0].type)[family.axis] for op in branches
                )
                fused = _insert(
                    branches[0],
                    operands,
                    tensor_type(dtype_of(branches[0].outputs[0].type), tuple(shape)),
                )
            _slice_out(positions[-1], fused, family.axis)
            for op in (op for operations in reversed(positions) for op in operations):
                Rewriter.erase_op(op)
        if families:
            restore_order(graph)


def _slice_out(branches: Sequence[OperatorOp], fused: SSAValue, axis: int) -> None:
    """Replace the siblings' results by slices of the fused result."""
    first = 0
    for op in branches:
        _replace(op, fused, axis, first)
        first += shape_of(op.outputs[0].type)[axis]


def _operand(branches: Sequence[OperatorOp], position: int, axis: int) -> SSAValue:
    """One operand's weights concatenated, or the constant that it is in all siblings."""
    owners = [op.inputs[position].owner for op in branches]
    weights = [owner for owner in owners if isinstance(owner, WeightOp)]
    if not weights:
        return branches[0].inputs[position]
    shape = list(shape_of(weights[0].output.type))
    shape[axis] = sum(shape_of(weight.output.type)[axis] for weight in weights)
    type = tensor_type(dtype_of(weights[0].output.type), tuple(shape))
    concatenated = WeightOp(concatenated_key([weight.key.data for weight in weights], axis), type)
    insert_before(branches[0], concatenated)
    return concatenated.output


def _insert(like: OperatorOp, operands: Sequence[SSAValue], type: Attribute) -> SSAValue:
    op = OperatorOp(like.type_name, operands, [type], like.attributes, like.node_name)
    insert_before(like, op)
    return op.outputs[0]


def _replace(op: OperatorOp, fused: SSAValue, axis: int, first: int) -> None:
    """Replace a sibling's result by a slice of the fused one, or of its heads.

    A Reshape of all columns is a view, a Reshape of a slice would need a copy.
    """
    value = op.outputs[0]
    columns = shape_of(fused.type)[-1]
    for user in {use.operation for use in value.uses}:
        size = head_size(shape_of(value.type), shape_of(user.results[0].type))
        if isinstance(user, OperatorOp) and user.type_name == "Reshape" and size is not None:
            shape = (*shape_of(user.outputs[0].type)[:-2], columns // size, size)
            heads = like_before(op, "Reshape", [fused], shape, shape=shape)
            head_slice = _slice(op, heads, len(shape) - 2, first // size, user.outputs[0].type)
            replace(user, [head_slice])
    if value.first_use is not None:
        value.replace_all_uses_with(_slice(op, fused, axis, first, value.type))


def _slice(op: OperatorOp, fused: SSAValue, axis: int, first: int, type: Attribute) -> SSAValue:
    """Insert a slice of a type before a sibling."""
    sizes = enumerate(shape_of(type))
    taken = [TakenIndices(first if number == axis else 0, 1, size) for number, size in sizes]
    return part_before(op, fused, slice_of(taken))
