"""Terms of a `dataflow.graph`, and the graph of changed terms."""

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import Block, Operation, Region, SSAValue

from compiler.graph.rewriting.attributes import FrozenArray, as_operator, as_term, with_defaults
from compiler.graph.rewriting.constants import constant_key, small_constant
from compiler.graph.rewriting.terms import RESULT, Graph, Term, Terms, reachable
from compiler.ir.dataflow import (
    ConstantOp,
    GraphOp,
    GroupOp,
    NoneOp,
    OperatorOp,
    WeightOp,
    YieldOp,
)
from compiler.ir.edit import erase_dead, insert_before, restore_order
from compiler.ir.types import known_type, tensor_type
from compiler.ir.values import (
    array_to_attribute,
    attribute_to_array,
    attributes_of,
    value_to_attribute,
)


@dataclass(frozen=True)
class ReadGraph:
    """A graph as terms, the value of each term, and where the results are used."""

    graph: Graph
    values: dict[Term, SSAValue]
    uses: tuple[tuple[Operation, int], ...]

    def has_order(self, results: Graph) -> bool:
        """Whether other terms for the results can be computed in some order.

        Terms do not show that a group's results, which are leaves, depend on what it reads: one
        operator for two, one of which a group reads and the other depends on the group, has none.
        """
        groups = {t: v.owner for t, v in self.values.items() if isinstance(v.owner, GroupOp)}
        read: dict[Operation, list[Term]] = {}
        for (op, _), term in zip(self.uses, results, strict=True):
            read.setdefault(op, []).append(term)
        waits_for = {
            op: {groups[leaf] for leaf in reachable(terms) if leaf in groups}
            for op, terms in read.items()
            if groups
        }
        try:
            TopologicalSorter(waits_for).prepare()
        except CycleError:
            return False
        return True


def read_terms(graph: GraphOp, terms: Terms) -> ReadGraph:
    """The operators of a graph outside groups as terms.

    What the graph yields or a group reads are results; inputs, and what groups compute, leaves.
    """
    reader = _Reader(terms)
    uses: list[tuple[Operation, int]] = []
    for value in graph.body.block.args:
        reader.leaf("input", value, index=len(reader.known))
    for op in graph.body.block.ops:
        match op:
            case NoneOp():
                reader.known[op.output] = None
            case WeightOp():
                reader.leaf("weight", op.output, key=op.key.data)
            case ConstantOp():
                array = FrozenArray.of(attribute_to_array(op.value))
                reader.leaf("constant", op.output, array=array)
            case OperatorOp():
                reader.operator(op)
            case _:
                uses += [(op, i) for i, v in enumerate(op.operands) if reader.known.get(v)]
                for value in op.results:
                    reader.leaf("input", value, index=len(reader.known))
    results = (reader.known[op.operands[i]] for op, i in uses)
    return ReadGraph(tuple(t for t in results if t is not None), reader.values, tuple(uses))


class _Reader:
    def __init__(self, terms: Terms):
        self.terms = terms
        self.known: dict[SSAValue, Term | None] = {}
        self.values: dict[Term, SSAValue] = {}

    def leaf(self, kind: str, value: SSAValue, **attributes: Any) -> None:
        self.set(value, self.terms.leaf(kind, known_type(value.type), **attributes))

    def set(self, value: SSAValue, term: Term) -> None:
        self.known[value] = term
        self.values.setdefault(term, value)

    def operator(self, op: OperatorOp) -> None:
        """Read an operator; one result is its term, several are results of it."""
        inputs = [self.known[v] for v in op.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        shapes = [t and t.shape for t in inputs]
        types = [known_type(value.type) for value in op.outputs]
        first = shapes[0] if shapes and shapes[0] is not None else ()
        own = as_term(attributes_of(op), first)
        full = with_defaults(op.type_name, own, shapes)
        term = self.terms.opaque(op.type_name, inputs, full, types, op.node_name)
        if len(types) == 1:
            self.set(op.outputs[0], term)
            return
        for i, value in enumerate(op.outputs):
            self.set(value, self.terms.result(term, i))


def write_terms(graph: GraphOp, read: ReadGraph, results: Graph) -> None:
    """Make the graph compute other terms for its results; what stays keeps its operations."""
    end = graph.body.block.last_op
    assert end is not None
    writer = _Writer(end, dict(read.values))
    for term in reachable(results):
        if not term.constant or term in results:
            writer.write(term)
    for (op, operand), term in zip(read.uses, results, strict=True):
        op.operands[operand] = writer.value(term)
    erase_dead(list(graph.body.block.ops))
    restore_order(graph)


def module_of(graph: Graph, like: GraphOp) -> ModuleOp:
    """A module that computes some terms as `like` does, for its target; it need not run.

    Its inputs are the leaves of the kind `input`.
    """
    inputs = [term for term in reachable(graph) if term.node.type == "input"]
    block = Block(arg_types=[tensor_type(t.dtype, t.shape) for t in inputs])
    results = YieldOp()
    block.add_op(results)
    writer = _Writer(results, dict(zip(inputs, block.args, strict=True)))
    for term in reachable(graph):
        writer.write(term)
    results.operands = [writer.value(term) for term in graph]
    names = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(len(graph))]
    copy = GraphOp("part", like.opset.value.data, *names, Region(block))
    copy.target = like.target
    return ModuleOp([copy])


class _Writer:
    def __init__(self, end: Operation, values: dict[Term, SSAValue]):
        self.end = end
        self.values = values
        self.several: dict[Term, Sequence[SSAValue]] = {}

    def value(self, term: Term | None) -> SSAValue:
        """The value of a term; constants are made where they are used first."""
        if term is None:
            return self._insert(NoneOp())
        if term not in self.values:
            assert term.constant, term
            self.values[term] = self._constant(term)
        return self.values[term]

    def write(self, term: Term) -> None:
        """Insert the operator of a term that is not in the graph yet."""
        if term in self.values or term.constant:
            return
        outputs = self.several if len(term.types) > 1 else None
        if term.node.type == RESULT:
            (operator,) = term.operands
            self.values[term] = self.several[operator][int(str(term.node.attributes["index"]))]
        elif outputs is not None:
            outputs[term] = self._operator(term)
        else:
            self.values[term] = self._operator(term)[0]

    def _operator(self, term: Term) -> Sequence[SSAValue]:
        node = term.node
        tensors = [t and t.types[0] for t in node.inputs]
        attributes = as_operator(tensors, node.attributes)
        inputs = [self.value(operand) for operand in node.inputs]
        values = {name: value_to_attribute(value) for name, value in attributes.items()}
        types = [tensor_type(t.dtype, t.shape) if t.dtype else NoneType() for t in term.types]
        op = OperatorOp(node.type, inputs, types, values, node.node)
        insert_before(self.end, op)
        return op.outputs

    def _constant(self, term: Term) -> SSAValue:
        array = small_constant(term)
        if array is not None:
            return self._insert(ConstantOp(array_to_attribute(array)))
        return self._insert(WeightOp(constant_key(term), tensor_type(term.dtype, term.shape)))

    def _insert(self, op: NoneOp | ConstantOp | WeightOp) -> SSAValue:
        insert_before(self.end, op)
        return op.output
