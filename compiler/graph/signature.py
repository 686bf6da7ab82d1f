"""The signature of a group: groups of one signature share one kernel."""

from collections.abc import Set as AbstractSet
from hashlib import sha256
from itertools import islice

from xdsl.dialects.builtin import NoneType
from xdsl.ir import Attribute, Operation, SSAValue

from compiler.ir.dataflow import ConstantOp, GroupOp, OperatorOp, WeightOp
from compiler.ir.kept import kept
from compiler.ir.layouts import block_of
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_text

_STEM_OPERATORS = 3
_HASH_DIGITS = 12


def signature(group: GroupOp) -> str:
    """A C identifier such as `Conv_Relu_3f9a2c41d0e7`: the first operators' types and a hash.

    The hash covers operators, attributes, constants, types, layouts and which inputs are weights;
    it does not cover weights' keys, node names, SSA names or attributes that passes set on groups.
    """
    assert group.control is None, "an If or a Loop has no kernel"
    first = islice(group.operators, _STEM_OPERATORS)
    stem = "_".join(op.type_name.rpartition("::")[2] for op in first)
    digest = sha256("\n".join(content_lines(group)).encode()).hexdigest()
    return f"{stem or 'Constant'}_{digest[:_HASH_DIGITS]}"


def content_lines(group: GroupOp, left_out: AbstractSet[Operation] = frozenset()) -> list[str]:
    """The content of a group line by line, the values of some constants left out."""
    numbers: dict[SSAValue, int] = {v: i for i, v in enumerate(group.body.block.args)}
    lines = [f"{_type(v.type)} {isinstance(v.owner, WeightOp)}" for v in group.inputs]
    for op in group.body.block.ops:
        operands = " ".join([str(numbers[value]) for value in op.operands])
        for result in op.results:
            numbers[result] = len(numbers)
        types = " ".join([_type(result.type) for result in op.results])
        head = "constant" if op in left_out else _head(op)
        lines.append(f"{head} ({operands}) {types} {_attributes(op.attributes)}")
    lines += [
        f"result {i} {_layout(v.type)}" for i, v in enumerate(group.outputs) if _layout(v.type)
    ]
    return lines


def _head(op: object) -> str:
    if isinstance(op, OperatorOp):
        return op.type_name
    return f"constant {op.value.data.data.hex()}" if isinstance(op, ConstantOp) else ""


@kept
def _type(type: Attribute) -> str:
    if isinstance(type, NoneType):
        return "none"
    return f"{dtype_of(type)}{shape_of(type)}{_layout(type)}"


def _layout(type: Attribute) -> str:
    return f" by {block}" if (block := block_of(type)) else ""


def _attributes(attributes: dict[str, Attribute]) -> str:
    return " ".join([f"{name}={attribute_text(attributes[name])}" for name in sorted(attributes)])
