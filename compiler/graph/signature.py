"""The signature of a group: groups of one signature share one kernel."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from hashlib import sha256
from itertools import islice

from xdsl.dialects.builtin import NoneType
from xdsl.ir import Attribute, Operation, SSAValue

from compiler.ir.dataflow import ConstantOp, GroupOp, OperatorOp, WeightOp
from compiler.ir.groups import (
    kernel_symbols,
    symbols_of_attribute,
    symbols_of_group,
    symbols_of_type,
)
from compiler.ir.kept import kept
from compiler.ir.layouts import block_of
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_text, attribute_to_value
from compiler.tensors.extents import extent_of
from compiler.tensors.substitution import mapped_extents, substituted, substituted_shape
from compiler.tensors.symbols import Symbol

_STEM_OPERATORS = 3
_HASH_DIGITS = 12


def signature(group: GroupOp) -> str:
    """A C identifier such as `Conv_Relu_3f9a2c41d0e7`: the first operators' types and a hash.

    The hash covers operators, attributes, constants, types, layouts and which inputs are weights;
    it does not cover weights' keys, node names, SSA names or attributes that passes set on groups.
    Sizes that depend on symbols are those of the kernel, for which symbols have other names.
    """
    assert group.control is None, "an If or a Loop has no kernel"
    first = islice(group.operators, _STEM_OPERATORS)
    stem = "_".join(op.type_name.rpartition("::")[2] for op in first)
    digest = sha256("\n".join(content_lines(group)).encode()).hexdigest()
    return f"{stem or 'Constant'}_{digest[:_HASH_DIGITS]}"


def content_lines(group: GroupOp, left_out: AbstractSet[Operation] = frozenset()) -> list[str]:
    """The content of a group line by line, the values of some constants left out."""
    symbols = symbols_of_group(group)
    if symbols:
        return _symbolic_lines(group, left_out, kernel_symbols(symbols))
    return _lines(group, left_out, _type, _attributes)


def _symbolic_lines(
    group: GroupOp, left_out: AbstractSet[Operation], symbols: Mapping[Symbol, Symbol]
) -> list[str]:
    """The content of a group with the symbols of its kernel, and these."""

    extents = {symbol: extent_of(own) for symbol, own in symbols.items()}

    def type_text(type: Attribute) -> str:
        if not symbols_of_type(type):
            return _type(type)
        shape = substituted_shape(shape_of(type), extents)
        return f"{dtype_of(type)}{shape}{_layout(type)}"

    def attribute_texts(attributes: Mapping[str, Attribute]) -> str:
        return " ".join(f"{n}={attribute_of_kernel(attributes[n])}" for n in sorted(attributes))

    def attribute_of_kernel(attribute: Attribute) -> str:
        if not symbols_of_attribute(attribute):
            return attribute_text(attribute)
        value = attribute_to_value(attribute)
        return str(mapped_extents(value, lambda extent: substituted(extent, extents)))

    bounds = [f"{own} {s.low} {s.high} {s.hint}" for s, own in symbols.items()]
    return _lines(group, left_out, type_text, attribute_texts) + bounds


def _lines(
    group: GroupOp,
    left_out: AbstractSet[Operation],
    type_text: Callable[[Attribute], str],
    attribute_texts: Callable[[dict[str, Attribute]], str],
) -> list[str]:
    numbers: dict[SSAValue, int] = {v: i for i, v in enumerate(group.body.block.args)}
    lines = [f"{type_text(v.type)} {isinstance(v.owner, WeightOp)}" for v in group.inputs]
    for op in group.body.block.ops:
        operands = " ".join([str(numbers[value]) for value in op.operands])
        for result in op.results:
            numbers[result] = len(numbers)
        types = " ".join([type_text(result.type) for result in op.results])
        head = "constant" if op in left_out else _head(op)
        lines.append(f"{head} ({operands}) {types} {attribute_texts(op.attributes)}")
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
