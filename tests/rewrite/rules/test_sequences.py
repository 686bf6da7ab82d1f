"""Random sequences of substitutions on random graphs keep the results."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.graph.rewriting.dataflow import read_terms, write_terms
from compiler.graph.rewriting.terms import Terms
from compiler.ir.dataflow import GraphOp
from examples import zoo
from tests.apply_passes import graph_of
from tests.rewrite.rules.sequences import rewritten
from tests.strategies import Model, rewritable_graphs

STEPS = 8


def results_after_rules(model: Model, random: Random) -> dict[str, np.ndarray]:
    """The results of a model after random rules."""
    graph, terms = graph_of(model), Terms()
    read = read_terms(graph, terms)
    write_terms(graph, read, rewritten(terms, read.graph, random, STEPS))
    model.module.verify()
    return interpret(model.module, model.weights, model.inputs, precise=True)


@settings(max_examples=60)
@given(rewritable_graphs(), st.randoms(use_true_random=False))
def test_sequences_of_rules_keep_the_results(model: Model, random: Random):
    before = interpret(model.module, model.weights, model.inputs, precise=True)
    after = results_after_rules(model, random)
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-8, atol=1e-8)


@settings(max_examples=60)
@given(rewritable_graphs(whole=True), st.randoms(use_true_random=False))
def test_sequences_of_rules_are_exact_on_whole_numbers(model: Model, random: Random):
    before = interpret(model.module, model.weights, model.inputs, precise=True)
    after = results_after_rules(model, random)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


@pytest.mark.parametrize("name", ["deepfm", "googlenet", "unet"])
def test_graph_of_unchanged_terms_is_unchanged(name: str):
    module = import_model(zoo.load(name)).module
    (graph,) = module.ops
    assert isinstance(graph, GraphOp)
    text = str(module)
    read = read_terms(graph, Terms())
    write_terms(graph, read, read.graph)
    assert str(module) == text
