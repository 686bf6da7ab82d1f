"""Values of terms by the interpreter of ONNX operators."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.frontend.interpreter.evaluation import evaluate_node
from compiler.graph.rewriting.attributes import as_operator
from compiler.graph.rewriting.terms import Graph, Term, reachable
from compiler.net.operators import KnownTensor

Array = NDArray[Any]


def random_array(generator: np.random.Generator, shape: Sequence[int]) -> Array:
    """Small integers other than 0, which float64 multiplies and adds exactly."""
    signs = generator.choice([-1.0, 1.0], tuple(shape))
    return signs * generator.integers(1, 4, tuple(shape))


def evaluate(graph: Graph, leaves: Mapping[Term, Array]) -> list[Array]:
    """The results of a graph in float64, from the values of its inputs."""
    values = dict(leaves)
    for term in reachable(graph):
        if term not in values:
            values[term] = _value(term, values)
            assert values[term].shape == term.shape
    return [values[term] for term in graph]


def _value(term: Term, values: Mapping[Term, Array]) -> Array:
    if term.node.type == "fill":
        return np.full(term.shape, term.node.attributes["value"], np.float64)
    if term.node.type == "identity" and not term.node.inputs:
        return np.eye(term.shape[0])
    tensors = [t and KnownTensor("float64", t.shape, values[t]) for t in term.node.inputs]
    attributes = as_operator(tensors, term.node.attributes)
    arrays = [tensor and tensor.array for tensor in tensors]
    (result,) = evaluate_node(term.node.type, arrays, attributes, precise=True)
    assert result is not None
    return result
