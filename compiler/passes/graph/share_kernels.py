"""The pass that lets layers which differ by scales and zero points share kernels."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from compiler.graph.rewriting.weights import derived_key
from compiler.graph.scales import (
    AttentionPart,
    SharedScale,
    attends,
    attention_parts,
    is_quantised,
    shared_scales,
)
from compiler.graph.signature import signature
from compiler.graph.targets import target_of
from compiler.ir.dataflow import ConstantOp, GraphOp, GroupOp, OperatorOp, WeightOp
from compiler.ir.edit import graphs_of, insert_before, replace
from compiler.ir.types import dtype_of, int64, tensor_type
from compiler.ir.values import array_to_attribute, attribute_to_array
from compiler.net.operators import KINDS, Kind, facts_of
from compiler.passes.base import GraphPass

_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6}
"""ONNX's numbers of the types that scales and zero points are used in."""


@dataclass(frozen=True)
class ShareKernels(GraphPass):
    """Make the scales and zero points of quantised layers operands of their kernels.

    Requires: groups; best after all passes that change them. Ensures: groups that are alike but for
    scales and zero points other than 0, on a GPU also limits of Clips, have one signature; what
    these are is in weights of one element, a zero point in one of a byte.

        %2 = dataflow.group "Round_Add_Clip_3f9a2c41d0e7" (%x) {... constant 131 ...}
        %3 = dataflow.group "Round_Add_Clip_9c1d04be5a20" (%y) {... constant 127 ...}
      becomes
        %2 = dataflow.group "Round_Cast_Add_5b07aa31c6ef" (%x, %zero0) {...}
        %3 = dataflow.group "Round_Cast_Add_5b07aa31c6ef" (%y, %zero1) {...}
    """

    name = "share-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Share the kernels of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            on_gpu = target_of(graph).is_gpu
            stored: dict[str, SSAValue] = {}
            for group in graph.groups:
                if on_gpu and group.control is None and attends(group) and is_quantised(group):
                    delay_scales(group)
            for group, scales in shared_scales(list(graph.groups), on_gpu).items():
                for scale in scales:
                    _read(group, scale, _weight(graph, scale, stored))
                group.kernel = StringAttr(signature(group))


def _weight(graph: GraphOp, scale: SharedScale, stored: dict[str, SSAValue]) -> SSAValue:
    """The weight of one element that a scale is, at the start of the graph."""
    number = scale.value if scale.dtype == "float32" else int(scale.value)
    shape: list[int] = []
    key = derived_key("constant", [], {"dtype": scale.dtype, "value": number, "shape": shape})
    if key not in stored:
        weight = WeightOp(key, tensor_type(scale.dtype, ()))
        first = graph.body.block.first_op
        assert first is not None
        insert_before(first, weight)
        stored[key] = weight.output
    return stored[key]


def _read(group: GroupOp, scale: SharedScale, weight: SSAValue) -> None:
    """Read a weight where a group has constants."""
    block = group.body.block
    argument = block.insert_arg(weight.type, len(block.args))
    group.operands = [*group.operands, weight]
    for constant in scale.constants:
        value = argument
        constant_type = constant.output.type
        if constant_type != weight.type:
            to = {"to": int64(_TYPES[dtype_of(constant_type)])}
            scalar = tensor_type(dtype_of(constant_type), ())
            cast = OperatorOp("Cast", [argument], [scalar], to)
            insert_before(constant, cast)
            value = cast.outputs[0]
        replace(constant, [value])


def delay_scales(group: GroupOp) -> None:
    """Multiply the results of an attention's MatMuls by the scales of their operands instead."""
    roles = attention_parts(group)
    for op in list(group.operators):
        wide = op.type_name == "MatMul" and dtype_of(op.outputs[0].type) == "float32"
        scales = list(_scales_of(op)) if wide else []
        of_operands = [pair for pair in scales if roles[pair[0]] is AttentionPart.OPERANDS]
        if not of_operands:
            continue
        factor = prod(
            float(attribute_to_array(constant.value).item()) for _, constant in of_operands
        )
        for scaling, _ in of_operands:
            replace(scaling, [scaling.inputs[0]])
        # Multiply the result of an operator by a number.
        (result,) = op.outputs
        constant = ConstantOp(array_to_attribute(np.array(factor, "float32")))
        product = OperatorOp("Mul", [result, constant.output], [result.type], {}, op.node_name)
        following = op.next_op
        assert following is not None
        users = list(result.uses)
        insert_before(following, constant, product)
        for use in users:
            if use.operation is not product:
                use.operation.operands[use.index] = product.outputs[0]
    group.kernel = StringAttr(signature(group))


def _scales_of(matmul: OperatorOp) -> Iterator[tuple[OperatorOp, ConstantOp]]:
    """The multiplications by one constant before a MatMul, views and transposes aside."""
    for value in matmul.inputs:
        while isinstance(owner := value.owner, OperatorOp) and value.has_one_use():
            if owner.type_name == "Mul" and isinstance(scale := owner.inputs[1].owner, ConstantOp):
                if attribute_to_array(scale.value).size == 1:
                    yield owner, scale
                break
            if not (facts_of(owner.type_name).permutes or KINDS.get(owner.type_name) is Kind.VIEW):
                break
            value = owner.inputs[0]
