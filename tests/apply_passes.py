"""Helpers of the tests of several passes."""

import numpy as np

from compiler.frontend.interpreter import interpret
from compiler.ir.context import parse_module
from compiler.ir.dataflow import GraphOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from tests.strategies import Model


def run(model: Model, pipeline: str) -> GraphOp:
    """Apply and verify passes; the result is checked against the model and its own text."""
    expected = interpret(model.module, model.weights, model.inputs)
    Runner().run(model.module, parse(pipeline))
    results = interpret(model.module, model.weights, model.inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(results[name], array)
    text = str(model.module)
    parsed = parse_module(text)
    parsed.verify()
    assert str(parsed) == text
    return graph_of(model)


def graph_of(model: Model) -> GraphOp:
    """The only graph of a model's module."""
    (graph,) = model.module.ops
    assert isinstance(graph, GraphOp)
    return graph


def nodes_of(graph: GraphOp) -> list[list[str]]:
    """The operator types of each group, in launch order."""
    return [[op.type_name for op in group.operators] for group in graph.groups]
