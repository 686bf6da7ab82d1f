"""Terms as plain operators and values, the form in which analyses read graphs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from numpy.typing import NDArray

from compiler.graph.network import Node
from compiler.graph.rewriting.attributes import FrozenArray, as_operator
from compiler.graph.rewriting.constants import constant_key
from compiler.graph.rewriting.terms import RESULT, Graph, Term, reachable
from compiler.graph.rewriting.weights import weight_array
from compiler.net.operators import KnownTensor
from compiler.net.operators.canonical import complete_attributes


@dataclass
class TermNetwork:
    """The operators of terms, with the term of each."""

    operators: list[Node] = field(default_factory=list[Node])
    values: list[KnownTensor] = field(default_factory=list[KnownTensor])
    constants: dict[int, NDArray[Any]] = field(default_factory=dict[int, NDArray[Any]])
    outputs: list[int] = field(default_factory=list[int])
    terms: list[Term] = field(default_factory=list[Term])


def network_of(graph: Graph) -> TermNetwork:
    """The network that `module_of` the graph would be read as."""
    reader = _Reader()
    for term in reachable(graph):
        reader.read(term)
    reader.network.outputs += [reader.numbers[term] for term in graph]
    return reader.network


class _Reader:
    def __init__(self):
        self.network = TermNetwork()
        self.numbers: dict[Term, int] = {}
        self.several: dict[Term, Sequence[int]] = {}

    def read(self, term: Term) -> None:
        """Add a term, whose inputs are known."""
        if term.constant or not term.inputs:
            self.numbers[term] = self.value(term.types[0], small_constant(term))
        elif term.kind == RESULT:
            (operator,) = term.operands
            self.numbers[term] = self.several[operator][int(str(term.attributes["index"]))]
        else:
            self.operator(term)

    def operator(self, term: Term) -> None:
        tensors = [t and t.types[0] for t in term.inputs]
        attributes = as_operator(term.kind, tensors, term.attributes)
        inputs = tuple(None if read is None else self.numbers[read] for read in term.inputs)
        outputs = tuple(self.value(type) for type in term.types)
        self.numbers[term], self.several[term] = outputs[0], outputs
        shapes = [operand and operand.shape for operand in term.inputs]
        full = complete_attributes(term.kind, attributes, shapes)
        self.network.operators.append(Node(term.kind, full, inputs, outputs))
        self.network.terms.append(term)

    def value(self, type: KnownTensor, array: NDArray[Any] | None = None) -> int:
        number = len(self.network.values)
        self.network.values.append(type)
        if array is not None:
            self.network.constants[number] = array
        return number


def small_constant(term: Term) -> NDArray[Any] | None:
    """The array of a constant that is part of the code: the graph's own, or of one element.

    None for other terms, and those that depend on a weight.
    """
    array = term.attributes.get("array")
    if isinstance(array, FrozenArray) and prod(term.shape) != 1:
        return array.array
    if not term.constant or prod(term.shape) != 1:
        return None
    if any(part.kind == "weight" for part in reachable([term])):
        return None
    return weight_array({}, constant_key(term))
