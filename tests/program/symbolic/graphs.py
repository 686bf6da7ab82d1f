"""Graphs with symbols: those of models, for sizes, and whether two graphs are the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from compiler.frontend.builder import Builder
from compiler.frontend.importing.part import ModelPart, Obstacles, specialise_part
from compiler.net.building.expansion import Expansion
from compiler.net.building.liveness import drop_dead
from compiler.net.graph import Graph, Value
from compiler.program.reading import ReadModel, read_program
from compiler.tensors.assumptions import Assumptions, assuming
from compiler.tensors.extents import Expression, extent_of, value_at
from compiler.tensors.symbols import Symbol

Sizes = Mapping[str, int]
LARGEST = 2**31 - 2**20


@dataclass(frozen=True)
class SymbolicGraph:
    """A graph of a model, the symbols of its inputs, and the sizes for which it holds."""

    graph: Graph
    obstacles: Obstacles
    symbols: Mapping[str, Symbol]
    assumptions: Assumptions


def symbol_name(declared: str | None, name: str, axis: int) -> str:
    """The name of the symbol of an open dimension."""
    return declared or f"{name}.{axis}"


def symbolic_graph(model: ReadModel, hints: Sizes) -> SymbolicGraph:
    """The graph for sizes that symbols stand for; those below 2 are numbers."""
    names = [
        symbol_name(d, t.name, a)
        for t in model.inputs
        for a, d in enumerate(t.shape or ())
        if not isinstance(d, int)
    ]
    symbols = {name: Symbol(name, 2, LARGEST, hints[name]) for name in names if hints[name] > 1}
    extents: dict[str, Any] = {**hints, **{n: extent_of(symbol) for n, symbol in symbols.items()}}
    with assuming() as assumptions:
        part = specialise_part(_part(model), _inputs(model, extents), model.context)
    return SymbolicGraph(part.graph, part.obstacles, symbols, assumptions)


def numeric_graph(model: ReadModel, sizes: Sizes) -> tuple[Graph, Obstacles]:
    """The graph for sizes."""
    part = specialise_part(_part(model), _inputs(model, sizes), model.context)
    return part.graph, part.obstacles


def _part(model: ReadModel) -> ModelPart:
    return ModelPart(list(model.graph.nodes), model.graph.outputs, model.graph.constants)


def _inputs(model: ReadModel, extents: Mapping[str, Any]) -> dict[str, Value]:
    """The model's inputs for extents by symbol."""
    return {
        type.name: Value(
            type.name,
            type.dtype,
            tuple(
                d if isinstance(d, int) else extents[symbol_name(d, type.name, axis)]
                for axis, d in enumerate(type.shape or ())
            ),
        )
        for type in model.inputs
    }


def read(model: onnx.ModelProto) -> ReadModel:
    """A model as a program reads it."""
    return read_program(model, {}, check_indices=False)


def graph_at(graph: Graph, sizes: Sizes) -> Graph:
    """A graph with sizes in place of symbols, and what becomes constant folded."""

    def at(value: Any) -> Any:
        if isinstance(value, Expression):
            return value_at(value, sizes)
        return [at(item) for item in value] if isinstance(value, list | tuple) else value  # pyright: ignore

    made: dict[Value, Value] = {}

    def use(value: Value | None) -> Value | None:
        if value is None or value in made:
            return value and made[value]
        assert value.array is not None, value.name
        if value.symbolic:
            numbers = np.array([at(item) for item in value.array.reshape(-1)], value.dtype)
            return Value(value.name, value.dtype, value.shape, numbers.reshape(value.shape))
        return value

    new = Graph([Value(v.name, v.dtype, tuple(at(v.shape))) for v in graph.inputs])
    made |= dict(zip(graph.inputs, new.inputs, strict=True))
    builder = Builder(new, Expansion())
    for operator in graph.operators:
        builder.node = operator.node
        inputs = [use(value) for value in operator.inputs]
        attributes = {name: at(value) for name, value in operator.attributes.items()}
        used = [not value.unknown for value in operator.outputs]
        outputs = builder.emit_used(operator.type, inputs, attributes, used)
        made |= {old: now for old, now in zip(operator.outputs, outputs, strict=True) if old}
    new.outputs = [(name, value) for name, old in graph.outputs if (value := use(old))]
    return new


def lines_of(graph: Graph) -> list[str]:
    """A text of each operator and output, which does not depend on names, without dead ones."""
    drop_dead(graph)
    numbers = {value: f"in{i}" for i, value in enumerate(graph.inputs)}

    def text(value: Value | None) -> str:
        if value is None:
            return "none"
        if value.array is not None:
            return f"{value.array.dtype}{list(value.shape)} {value.array.tobytes().hex()[:64]}"
        return numbers[value]

    lines: list[str] = []
    for operator in graph.operators:
        operands = ", ".join(map(text, operator.inputs))
        for value in operator.outputs:
            numbers[value] = f"v{len(numbers)}"
        types = [(value.dtype, tuple(value.shape)) for value in operator.outputs]
        lines.append(f"{operator.type} ({operands}) {_plain(operator.attributes)} {types}")
    return [*lines, *(f"{name} = {text(value)}" for name, value in graph.outputs)]


def _plain(attributes: Mapping[str, Any]) -> list[tuple[str, Any]]:
    values: Sequence[tuple[str, Any]] = sorted(attributes.items())
    return [(n, list(v) if isinstance(v, list | tuple) else v) for n, v in values]  # pyright: ignore
