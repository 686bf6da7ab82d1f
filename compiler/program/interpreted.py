"""Graphs of a few small tensors, which numpy runs: indices, conditions and shapes."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from compiler.errors import THIS_RUN, RunInputError
from compiler.frontend.interpreter import evaluate_node
from compiler.frontend.interpreter.control import run_control
from compiler.net.graph import Graph, Value, inner_graphs
from compiler.net.node import Node
from compiler.program.resident import on_host
from compiler.tensors.substitution import shape_at_hints

MOST_ELEMENTS = 64
"""The most elements of a small tensor."""

MOST_INTERPRETED = 64
"""The most operators of a graph that numpy runs."""


class InterpretedGraph:
    """A graph that numpy runs, operator by operator."""

    def __init__(self, graph: Graph):
        self._graph = graph
        for value in (value for operator in graph.operators for value in operator.inputs):
            if value is not None and value.array is not None:
                value.array.flags.writeable = False  # some results are views of it

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs by name; raises RunInputError for contents that do not fit."""
        results = _run(self._graph, [on_host(inputs[value.name]) for value in self._graph.inputs])
        return {name: array for (name, _), array in zip(self._graph.outputs, results, strict=True)}


def _run(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph, in order."""
    values = dict(zip(graph.inputs, inputs, strict=True))
    for operator in graph.operators:
        arrays = [None if v is None else values.get(v, v.array) for v in operator.inputs]
        pairs = zip(operator.outputs, _results(operator, arrays), strict=True)
        values |= {v: a for v, a in pairs if a is not None}
    results = [values.get(value, value.array) for _, value in graph.outputs]
    return [array for array in results if array is not None]


def _results(
    operator: Node[Value], arrays: Sequence[np.ndarray | None]
) -> Sequence[np.ndarray | None]:
    if inner_graphs(operator):
        present = [array for array in arrays if array is not None]
        bodies = [partial(_run, body) for body in inner_graphs(operator)]
        return run_control(operator.attributes["form"], present, bodies)
    used = [not value.unknown for value in operator.outputs]
    try:
        return evaluate_node(operator.type, arrays, operator.attributes, used)
    except (ValueError, IndexError) as error:
        raise RunInputError(
            f"{operator.type} {operator.node!r} does not fit its inputs: {error}; {THIS_RUN}"
        ) from error


def is_small(graph: Graph) -> bool:
    """Whether numpy runs a graph, of the example sizes, before a kernel could be launched."""
    computed = (v for op in graph.operators for v in op.outputs)
    shapes = (shape_at_hints(value.shape) for value in (*graph.inputs, *computed))
    small = all(prod(shape) <= MOST_ELEMENTS for shape in shapes)
    small = small and not any(inner_graphs(op) for op in graph.operators)
    return small and len(graph.operators) <= MOST_INTERPRETED
