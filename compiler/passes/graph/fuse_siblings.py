"""The pass that makes one kernel of branches that read one tensor with weights of their own."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from compiler.graph.network import GraphNetwork, read_network
from compiler.graph.siblings import Family, find_families, weight_axis
from compiler.graph.targets import target_of
from compiler.graph.weights import joined_key
from compiler.ir.dataflow import ConstantOp, GraphOp, OperatorOp, WeightOp
from compiler.ir.edit import graphs_of, restore_order
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.ir.values import array_to_attribute
from compiler.passes.base import GraphPass


@dataclass(frozen=True)
class FuseSiblings(GraphPass):
    """Join products or convolutions of one tensor into one of all their results.

    Requires: nothing; best before `fuse-attention`, as that reads the parts of a joined product
    where they lie. Ensures, if asked, in a graph for a target with such kernels (cuda): products of
    one tensor with constant matrices whose results only attention looks at are one; convolutions of
    one image and shape whose results can be views of one are one. Joined weights have a key that
    says of what.

        %2 = dataflow.op "MatMul" (%0, %a) ...
        %3 = dataflow.op "MatMul" (%0, %b) ...
      becomes
        %ab = dataflow.weight "{\\"concat\\": [\\"a\\", \\"b\\"], \\"axis\\": 1}" ...
        %4 = dataflow.op "MatMul" (%0, %ab) ...
        %2 = dataflow.op "Slice" (%4, ...) ...
        %3 = dataflow.op "Slice" (%4, ...) ...
    """

    name = "fuse-siblings"

    products: bool = False
    """Join the products that attention reads; on one H200, streams ran them faster apart."""
    convolutions: bool = False
    """Join convolutions; on one H200, streams ran them faster apart."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Merge the branches of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            if target_of(graph).fuses_siblings:
                self._merge(graph)

    def _merge(self, graph: GraphOp) -> None:
        network = read_network(graph)
        for family in find_families(network, self.products, self.convolutions):
            _join(network, family)
        restore_order(graph)


def _join(network: GraphNetwork, family: Family) -> None:
    """Replace branches by one, and their results by parts of its result."""
    places = [
        [network.operations[branch[place]] for branch in family.branches]
        for place in range(len(family.branches[0]))
    ]
    before, whole = [op.inputs[0] for op in places[0]], places[0][0].inputs[0]
    for place, branches in enumerate(places):
        node = network.operators[family.branches[0][place]]
        operands = [
            whole if value is before[0] else _operand(branches, i, weight_axis(node, i))
            for i, value in enumerate(branches[0].inputs)
        ]
        before = [op.outputs[0] for op in branches]
        whole = _insert(branches[0], operands, _joined_type(branches, family.axis))
    _hand_out(places[-1], whole, family.axis)
    for op in (op for operations in reversed(places) for op in operations):
        op.detach()
        op.erase()


def _hand_out(branches: Sequence[OperatorOp], whole: SSAValue, axis: int) -> None:
    """Put parts of the joined result in the place of the branches' results."""
    first = 0
    for op in branches:
        extent = shape_of(op.outputs[0].type)[axis]
        _replace(op, whole, axis, first, first + extent)
        first += extent


def _operand(branches: Sequence[OperatorOp], position: int, axis: int) -> SSAValue:
    """The weights of one operand joined, or the constant that it is in all branches."""
    owners = [op.inputs[position].owner for op in branches]
    weights = [owner for owner in owners if isinstance(owner, WeightOp)]
    if not weights:
        return branches[0].inputs[position]
    shape = list(shape_of(weights[0].output.type))
    shape[axis] = sum(shape_of(weight.output.type)[axis] for weight in weights)
    type = tensor_type(dtype_of(weights[0].output.type), tuple(shape))
    joined = WeightOp(joined_key([weight.key.data for weight in weights], axis), type)
    _before(branches[0], joined)
    return joined.output


def _joined_type(branches: Sequence[OperatorOp], axis: int) -> Attribute:
    shape = list(shape_of(branches[0].outputs[0].type))
    shape[axis] = sum(shape_of(op.outputs[0].type)[axis] for op in branches)
    return tensor_type(dtype_of(branches[0].outputs[0].type), tuple(shape))


def _insert(like: OperatorOp, operands: Sequence[SSAValue], type: Attribute) -> SSAValue:
    op = OperatorOp(like.type_name, operands, [type], like.attributes, like.node_name)
    _before(like, op)
    return op.outputs[0]


def _replace(op: OperatorOp, whole: SSAValue, axis: int, first: int, end: int) -> None:
    """Put a part of the joined result in the place of a branch's."""
    numbers = [ConstantOp(array_to_attribute(np.array([n], np.int64))) for n in (first, end, axis)]
    inputs = [whole, *(constant.output for constant in numbers)]
    part = OperatorOp("Slice", inputs, [op.outputs[0].type], node=op.node_name)
    _before(op, *numbers, part)
    op.outputs[0].replace_all_uses_with(part.outputs[0])


def _before(place: Operation, *operations: Operation) -> None:
    block = place.parent_block()
    assert block is not None
    block.insert_ops_before(operations, place)
