"""Parts as graphs, and graphs of changed parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend.interpreter import interpret
from compiler.graph.rewriting.dataflow import read_terms, write_terms
from compiler.graph.rewriting.terms import Graph, Terms
from compiler.rewrite.matches import Matches
from compiler.rewrite.matching import Matcher
from compiler.rewrite.rules import SEARCHED
from compiler.rewrite.search.backtracking import neighbours
from compiler.rewrite.search.blocks import operators_of
from compiler.rewrite.search.search import Divider, GraphPart, composed
from tests.apply_passes import graph_of
from tests.rewrite.search.crafted import read, repvgg
from tests.strategies import Model, dataflow_graphs


def parts_of(terms: Terms, graph: Graph, size: int) -> list[GraphPart]:
    """The operators of a graph, some after another, as parts."""
    operators = operators_of(graph)
    blocks = [operators[i : i + size] for i in range(0, len(operators), size)]
    divider = Divider(terms, graph)
    return [divider.part(block) for block in blocks]


@pytest.mark.parametrize("blocks", [2, 3])
def test_parts_of_one_structure_have_one_graph(blocks: int):
    terms, found = read(repvgg(blocks))
    parts = parts_of(terms, found.graph, 5)
    assert len(parts) == blocks
    assert len({part.graph for part in parts}) == 1
    assert len({part.outputs for part in parts}) == blocks


def test_parts_of_other_shapes_have_other_graphs():
    terms = Terms()
    graphs = set[Graph]()
    for channels in (2, 3):
        model = repvgg(1, channels)
        graph = read_terms(graph_of(model), terms).graph
        graphs.add(Divider(terms, graph).part(operators_of(graph)).graph)
    assert len(graphs) == 2


@settings(deadline=None, max_examples=40)
@given(dataflow_graphs(), st.integers(1, 5))
def test_unchanged_parts_give_equal_results(model: Model, size: int):
    expected = interpret(model.module, model.weights, model.inputs)
    terms, found = read(model)
    parts = parts_of(terms, found.graph, size)
    whole = composed(terms, found.graph, [(part, part.graph) for part in parts])
    write_terms(graph_of(model), found, whole)
    model.module.verify()
    results = interpret(model.module, model.weights, model.inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(results[name], array)


def test_unchanged_parts_give_the_same_graph():
    terms, found = read(repvgg(3))
    parts = parts_of(terms, found.graph, 4)
    assert len(parts) > 3
    whole = composed(terms, found.graph, [(part, part.graph) for part in parts])
    assert whole == found.graph


@pytest.mark.parametrize("seed", range(4))
def test_changed_parts_equal_the_original(seed: int):
    model = repvgg(3)
    expected = interpret(model.module, model.weights, model.inputs)["y0"]
    terms, found = read(model)
    random = np.random.default_rng(seed)
    chosen: list[tuple[GraphPart, Graph]] = []
    for part in parts_of(terms, found.graph, 5):
        others = [graph for _, graph in neighbours(Matcher(Matches(terms), part.graph), SEARCHED)]
        assert others
        chosen.append((part, others[random.integers(len(others))]))
    whole = composed(terms, found.graph, chosen)
    assert whole != found.graph
    write_terms(graph_of(model), found, whole)
    model.module.verify()
    result = interpret(model.module, model.weights, model.inputs)["y0"]
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)
