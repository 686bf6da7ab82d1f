"""The pass that simplifies operators, merges equal ones and removes dead ones."""

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from compiler.graph.fusion.hoisting import Hoisted
from compiler.graph.fusion.simplify import ReshapeOf, Simplification, Update, concat_key, simplify
from compiler.graph.fusion.slices import Sliced, part_before
from compiler.graph.rewriting.weights import reshaped_key
from compiler.ir.dataflow import (
    ConstantOp,
    GraphOp,
    NoneOp,
    OperatorOp,
    WeightOp,
)
from compiler.ir.edit import erase_dead, graphs_of, insert_before
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.ir.values import array_to_attribute, attribute_to_array, value_to_attribute
from compiler.net.attributes import Shape
from compiler.passes.base import GraphPass


@dataclass(frozen=True)
class Canonicalize(GraphPass):
    """Simplify operators locally, merge equal ones and remove dead ones; results stay bit-exact.

    Requires: nothing; groups stay as they are. Ensures: no simplification of
    `compiler.graph.fusion.simplify` applies, no two operators are equal, none is dead; a Concat
    with the bytes of an earlier one is a Reshape of it; elementwise operators on a Reshape of a
    contraction come before it, with operands in other shapes, so that they can be its epilogue.

        %1 = dataflow.op "Relu" (%0) ...
        %2 = dataflow.op "Identity" (%1) ...
        %3 = dataflow.op "Relu" (%0) ...
        %4 = dataflow.op "Add" (%2, %3) ...
      becomes
        %1 = dataflow.op "Relu" (%0) ...
        %4 = dataflow.op "Add" (%1, %1) ...
    """

    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Canonicalize every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            while _sweep(graph):
                pass


def _sweep(graph: GraphOp) -> bool:
    """Go over the operators once; whether anything changed."""
    changed = False
    first: dict[Hashable, Operation] = {}
    concats: dict[Hashable, SSAValue] = {}
    for op in list(graph.body.block.ops):
        if isinstance(op, OperatorOp) and (simplification := simplify(op)) is not None:
            _rewrite(op, simplification)
            changed = True
        if isinstance(op, OperatorOp) and (again := _equal_concat(op, concats)):
            _rewrite(op, ReshapeOf(again))
            changed = True
        key = _content(op)
        if key is not None and first.setdefault(key, op) is not op:
            for old, new in zip(op.results, first[key].results, strict=True):
                old.replace_all_uses_with(new)
            changed = True
    return erase_dead(list(graph.body.block.ops)) or changed


def _equal_concat(op: OperatorOp, concats: dict[Hashable, SSAValue]) -> SSAValue | None:
    """The result of an earlier Concat with the same bytes as this one's."""
    key = concat_key(op)
    if key is None or 0 in shape_of(op.outputs[0].type):
        return None
    first = concats.setdefault(key, op.outputs[0])
    return None if first is op.outputs[0] else first


def _rewrite(op: OperatorOp, simplification: Simplification) -> None:
    match simplification:
        case SSAValue():
            op.outputs[0].replace_all_uses_with(simplification)
        case Update():
            op.operands = simplification.inputs
            op.attributes = dict(simplification.attributes)
        case ReshapeOf():
            _become_reshape(op, simplification.source)
        case Sliced():
            _become_sliced(op, simplification)
        case Hoisted():
            # Insert an operator on operands of other shapes before it; returns its result.
            operands = [_reshaped(op, value, shape) for value, shape in simplification.operands]
            result = tensor_type(dtype_of(op.outputs[0].type), simplification.shape)
            inner = OperatorOp(op.type_name, operands, [result], dict(op.attributes), op.node_name)
            insert_before(op, inner)
            _become_reshape(op, inner.outputs[0])


def _become_sliced(op: OperatorOp, sliced: Sliced) -> None:
    """Replace a Slice by the operator that computes its operand, on slices of the operands."""
    operands = [
        value if bounds is None else part_before(op, value, bounds)
        for value, bounds in zip(sliced.source.inputs, sliced.parts, strict=True)
    ]
    source = sliced.source
    result = op.outputs[0].type
    inner = OperatorOp(
        source.type_name, operands, [result], dict(source.attributes), source.node_name
    )
    insert_before(op, inner)
    op.outputs[0].replace_all_uses_with(inner.outputs[0])


def _become_reshape(op: OperatorOp, source: SSAValue) -> None:
    op.op_type = StringAttr("Reshape")
    op.operands = [source]
    op.attributes = {"shape": value_to_attribute(shape_of(op.outputs[0].type))}


def _reshaped(op: OperatorOp, value: SSAValue, shape: Shape | None) -> SSAValue:
    """A value in another shape, before an operator."""
    if shape is None:
        return value
    type = tensor_type(dtype_of(value.type), shape)
    owner = value.owner
    match owner:
        case ConstantOp():
            array = attribute_to_array(owner.value)
            reshaped = ConstantOp(array_to_attribute(array.reshape(shape)))
        case WeightOp():
            reshaped = WeightOp(reshaped_key(owner.key.data, shape), type)
        case _:
            attributes = {"shape": value_to_attribute(shape)}
            reshaped = OperatorOp("Reshape", [value], [type], attributes, op.node_name)
    insert_before(op, reshaped)
    return reshaped.results[0]


def _content(op: Operation) -> Hashable | None:
    """A key that operations with equal results share; None for those that are never merged."""
    match op:
        case OperatorOp():
            attributes = frozenset(op.attributes.items())
            types = tuple(value.type for value in op.outputs)
            return op.op_type, tuple(op.operands), attributes, types
        case ConstantOp():
            return op.value
        case WeightOp():
            return op.key, op.output.type
        case NoneOp():
            return NoneOp
        case _:
            return None
