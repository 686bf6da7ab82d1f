"""Specialisation of a part of a model whose inputs have known types, and some known contents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from compiler.frontend.builder import Builder, supported
from compiler.frontend.control.unrolling import LONGEST_LOOP
from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.specialise import Problem, Scope, Specialiser, required
from compiler.frontend.node_order import live_nodes
from compiler.frontend.unsupported import NeedsValue, Unsupported
from compiler.net.graph import Graph, Value, constant, makers_of
from compiler.net.node import Node
from compiler.schedule.tasks import MEASURED_SIZE
from compiler.tensors.extents import symbols_of
from compiler.tensors.substitution import extents_in

MOST_KNOWN = 64
"""The most elements of a tensor whose content a specialisation may depend on."""


@dataclass(frozen=True, slots=True)
class ModelPart:
    """Nodes in execution order, the names that they must compute, and constants by name."""

    nodes: Sequence[onnx.NodeProto]
    outputs: Sequence[str]
    constants: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Why a part is not one static graph, and what would make it some.

    `known` are inputs on whose contents shapes depend, `split_at` computed tensors of that kind,
    which must be inputs of another part; `askers` are the nodes that need them. The problems are
    those of nodes that cannot be compiled for any shapes. Nodes are given by index in the part.
    """

    known: frozenset[str] = frozenset()
    split_at: frozenset[str] = frozenset()
    askers: frozenset[int] = frozenset()
    problems: Mapping[int, Sequence[Problem]] = field(default_factory=dict[int, Sequence[Problem]])

    def __bool__(self) -> bool:
        return bool(self.known or self.split_at or self.problems)


@dataclass(frozen=True, slots=True)
class SpecialisedPart:
    """The graph of a part for some inputs, and what is in the way of compiling it.

    `graph` has only the inputs that it reads.
    """

    graph: Graph
    obstacles: Obstacles


def specialise_part(
    part: ModelPart, inputs: Mapping[str, Value], context: ModelContext
) -> SpecialisedPart:
    """The graph of a part for inputs by name, whose contents may be known.

    Raises RunInputError for a node that does not fit its inputs.
    """
    graph = Graph([value for value in inputs.values() if value.array is None])
    specialiser = Specialiser(context, graph)
    specialiser.longest_loop = LONGEST_LOOP
    scope = Scope(context.opsets)
    scope.values |= {name: constant(name, array) for name, array in part.constants.items()}
    scope.values |= inputs
    found: dict[int, list[Problem]] = {}
    position = {id(node): index for index, node in enumerate(part.nodes)}
    for node, used in live_nodes(part.nodes, part.outputs):
        known = len(specialiser.problems)
        specialiser.visit(node, used, scope)
        if problems := specialiser.problems[known:]:
            found[position[id(node)]] = problems
    graph.outputs = [(name, required(scope[name])) for name in part.outputs]
    _check_outputs(part, graph, found)
    if context.check_indices:
        specialiser.watch.add_to(graph)
    _compute_measured(graph, specialiser.builder)
    made = makers_of(graph)
    measured = specialiser.builder.measured.items()
    graph.outputs += [(MEASURED_SIZE + name, number) for name, number in measured if number in made]
    names = {value: name for name, value in scope.values.items() if value is not None}
    # A node that changes nothing, such as a Reshape to the same shape, gives its input another
    # name, under which no caller could be asked for its content.
    names |= {value: name for name, value in inputs.items()}
    return SpecialisedPart(graph, _obstacles(graph, names, found))


def _compute_measured(graph: Graph, builder: Builder) -> None:
    """Let a run compute the outputs that are known but for what it measures."""
    for index, (name, value) in enumerate(graph.outputs):
        sizes = extents_in(value.content.reshape(-1).tolist()) if value.symbolic else ()
        if any(symbol.measured for size in sizes for symbol in symbols_of(size)):
            builder.node = name
            graph.outputs[index] = (name, builder.at_run_time(value))


def _check_outputs(part: ModelPart, graph: Graph, found: dict[int, list[Problem]]) -> None:
    """Add the problem of outputs of types that cannot be compiled to the nodes that make them."""
    makers = {name: i for i, node in enumerate(part.nodes) for name in node.output}
    for name, value in graph.outputs:
        try:
            if not value.unknown and value.array is None:
                supported(value)
        except Unsupported as error:
            if name in makers:
                node = part.nodes[makers[name]]
                problem = Problem(node.name or name, node.op_type, "of the model", error)
                found.setdefault(makers[name], []).append(problem)


def _obstacles(
    graph: Graph, names: Mapping[Value, str], found: Mapping[int, Sequence[Problem]]
) -> Obstacles:
    """The obstacles: contents that are needed, or else the problems of nodes."""
    makers = makers_of(graph)
    known = set[str]()
    split_at = set[str]()
    askers = set[int]()
    problems: dict[int, Sequence[Problem]] = {}
    for index, reported in found.items():
        needed = [p.error.value for p in reported if isinstance(p.error, NeedsValue)]
        sources = [_sources(value, makers, names) for value in needed]
        if len(needed) < len(reported) or None in sources:
            problems[index] = reported
            continue
        askers.add(index)
        for source in sources:
            assert source is not None
            known |= source.known
            split_at |= source.split_at
    return Obstacles(frozenset(known), frozenset(split_at), frozenset(askers), problems)


@dataclass(slots=True)
class _Sources:
    """The inputs of a part, and the computed tensors, that determine a tensor's content."""

    known: set[str] = field(default_factory=set[str])
    split_at: set[str] = field(default_factory=set[str])


def _sources(
    value: Value, makers: Mapping[Value, Node[Value]], names: Mapping[Value, str]
) -> _Sources | None:
    """The small tensors that determine a small tensor's content; None if there are none."""
    found = _Sources()
    pending = [value]
    seen = set[Value]()
    while pending:
        current = pending.pop()
        if current in seen or current.array is not None:
            continue
        seen.add(current)
        if not _is_small(current):
            return None
        read = (
            [
                value
                for value in (makers[current].inputs)
                if value is not None and value.array is None
            ]
            if current in makers
            else []
        )
        if read and all(map(_is_small, read)):
            pending += read
        elif current not in names:
            return None
        else:
            (found.split_at if current in makers else found.known).add(names[current])
    return found


def _is_small(value: Value) -> bool:
    size = 1
    for length in value.shape:
        size *= length
    return value.items is None and size <= MOST_KNOWN
