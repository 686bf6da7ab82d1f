"""A graph with its groups looked through: every operator in order, values across borders."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, NoneType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from compiler.errors import ModelError
from compiler.ir.dataflow import GraphOp, GroupOp
from compiler.ir.extents import ExtentAttr
from compiler.ir.kept import kept
from compiler.ir.types import shape_of
from compiler.tensors.extents import Extent, symbols_of
from compiler.tensors.substitution import is_symbolic
from compiler.tensors.symbols import Symbol


def graph_of(module: ModuleOp) -> GraphOp:
    """The module's only `dataflow.graph`; raises ModelError where there is none."""
    graphs = [op for op in module.ops if isinstance(op, GraphOp)]
    if len(graphs) != 1:
        raise ModelError(
            f"expected one dataflow.graph, found {len(graphs)}: "
            "only IR from before lower-to-taskflow can be exported or interpreted"
        )
    return graphs[0]


def operators(graph: GraphOp) -> Iterable[Operation]:
    """Every operation in order, with groups replaced by what they hold."""
    for op in graph.body.block.ops:
        yield from op.body.block.ops if isinstance(op, GroupOp) else (op,)


def symbols_of_group(group: GroupOp) -> tuple[Symbol, ...]:
    """The symbols of a group's sizes, in the order in which its kernel reads their values.

    That is the order in which they first occur: in the types of its arguments and of what its
    operations give, then in attributes; symbols of one extent by name.
    """
    ops = list(group.body.block.ops)
    values = [*group.body.block.args, *(value for op in ops for value in op.results)]
    occurrences = [symbols_of_type(value.type) for value in values]
    for op in ops:
        occurrences += [symbols_of_attribute(op.attributes[name]) for name in sorted(op.attributes)]
    return tuple(dict.fromkeys(symbol for symbols in occurrences for symbol in symbols))


def kernel_symbols(symbols: Sequence[Symbol]) -> dict[Symbol, Symbol]:
    """The symbols of a kernel in place of those of a group: `s0` and on, with their bounds."""
    return {
        symbol: replace(symbol, name=f"s{number}", scope=0) for number, symbol in enumerate(symbols)
    }


@kept
def symbols_of_type(type: Attribute) -> tuple[Symbol, ...]:
    """The symbols of a type's sizes."""
    return () if isinstance(type, NoneType) else _symbols(shape_of(type))


def depends_on_symbols(graph: GraphOp) -> bool:
    """Whether sizes of a graph depend on symbols."""
    return any(symbols_of_type(value.type) for op in graph.walk() for value in op.results)


@kept
def symbols_of_attribute(attribute: Attribute) -> tuple[Symbol, ...]:
    """The symbols of an operator's attribute."""
    if isinstance(attribute, ExtentAttr):
        return _symbols([attribute.data])
    if isinstance(attribute, ArrayAttr):
        items: tuple[Attribute, ...] = attribute.data  # pyright: ignore
        return tuple(symbol for item in items for symbol in symbols_of_attribute(item))
    return ()


def _symbols(extents: Sequence[Extent]) -> tuple[Symbol, ...]:
    depending = [extent for extent in extents if is_symbolic(extent)]
    return tuple(s for extent in depending for s in sorted(symbols_of(extent), key=str))


def outer_value(value: SSAValue) -> SSAValue:
    """The value outside that a group's argument stands for, or a group's result yields."""
    if isinstance(value, BlockArgument):
        parent = value.block.parent_op()
        group = isinstance(parent, GroupOp)
        return outer_value(parent.inputs[value.index]) if group else value
    if isinstance(value, OpResult) and isinstance(value.op, GroupOp):
        return outer_value(value.op.results_yielded[value.index])
    return value
