"""Graphs of a few small tensors, which numpy runs: indices, conditions and shapes."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from compiler.frontend.graph import Graph
from compiler.frontend.interpreter import evaluate_node

MOST_ELEMENTS = 64
"""The most elements of a small tensor."""

MOST_INTERPRETED = 64
"""The most operators of a graph that numpy runs."""


class InterpretedGraph:
    """A graph that numpy runs, operator by operator."""

    def __init__(self, graph: Graph):
        self._graph = graph

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs by name."""
        values = {value: inputs[value.name] for value in self._graph.inputs}
        for operator in self._graph.operators:
            arrays = [None if v is None else values.get(v, v.array) for v in operator.inputs]
            used = [value is not None for value in operator.outputs]
            found = evaluate_node(operator.op_type, arrays, operator.attributes, used)
            pairs = zip(operator.outputs, found, strict=True)
            values |= {v: a for v, a in pairs if v is not None and a is not None}
        return {name: values[value] for name, value in self._graph.outputs}


def is_small(graph: Graph) -> bool:
    """Whether numpy runs a graph before a kernel of it could be launched."""
    made = (v for op in graph.operators for v in op.outputs if v is not None)
    small = all(prod(value.shape) <= MOST_ELEMENTS for value in (*graph.inputs, *made))
    return small and len(graph.operators) <= MOST_INTERPRETED
