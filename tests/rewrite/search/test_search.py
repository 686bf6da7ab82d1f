"""The search of a whole graph: its parts, whole candidates, refinement."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest

from compiler.frontend.interpreter import interpret
from compiler.graph.rewriting.dataflow import write_terms
from compiler.graph.rewriting.terms import Graph, Term
from compiler.rewrite.matches import Matches
from compiler.rewrite.rules import SEARCHED
from compiler.rewrite.search.backtracking import Backtracking, Limits
from compiler.rewrite.search.blocks import Sites, blocks_of, operators_of
from compiler.rewrite.search.kernels import critical_time, kernels_of
from compiler.rewrite.search.search import Divider, Division, PartSizes, Search
from tests.apply_passes import graph_of
from tests.graphs import GraphBuilder
from tests.rewrite.search.crafted import chain, operators, read, repvgg
from tests.strategies import Model

LIMITS = Limits(steps=40, kept=6)


def sequences(blocks: Sequence[Sequence[Term]], sizes: PartSizes) -> Iterator[list[list[Term]]]:
    """Every way to make parts of allowed sizes of consecutive blocks; the first may be smaller."""
    if not blocks:
        yield []
    for start in range(len(blocks)):
        part = [term for block in blocks[start:] for term in block]
        if len(part) <= sizes.most and (len(part) >= sizes.least or start == 0):
            for before in sequences(blocks[:start], sizes):
                yield [*before, part]


@pytest.mark.parametrize("division", ["greedy", "one"])
def test_parts_without_dynamic_programming_are_the_whole_graph_in_order(division: Division):
    terms, found = read(chain(["Relu", "Neg", "Abs"] * 8))
    sizes = PartSizes(5, 9)
    parts = Search(terms, (), len, LIMITS, sizes, division=division).parts(found.graph)
    counts = [len(operators_of(part.graph)) for part in parts]
    assert sum(counts) == 24
    assert (counts == [24]) == (division == "one")
    assert all(count <= sizes.most for count in counts) == (division == "greedy")
    assert all(a + b > sizes.most for a, b in pairwise(counts))


@pytest.mark.parametrize("seed", range(5))
def test_the_sequence_of_parts_has_the_least_cost(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Against all sequences, by a cost that depends on where parts begin and end."""
    terms, found = read(chain(["Relu", "Neg", "Abs", "Neg", "Relu", "Neg"] * 4))
    random = np.random.default_rng(seed)
    drawn: dict[Graph, float] = {}

    def cost(graph: Graph) -> float:
        return drawn.setdefault(graph, float(random.integers(1, 1000)))

    sizes = PartSizes(5, 9)
    search = Search(terms, (), cost, LIMITS, sizes)
    asked: list[list[list[Term]]] = []

    def watched(operators: Sequence[Term], sites: Sites, size: int) -> list[list[Term]]:
        asked.append(blocks_of(operators, sites, size))
        return asked[-1]

    monkeypatch.setattr("compiler.rewrite.search.search.blocks_of", watched)
    parts = search.parts(found.graph)
    (blocks,) = asked
    ways = list(sequences(blocks, sizes))
    assert len(ways) > 3
    divider = Divider(terms, found.graph)
    costs = [sum(cost(divider.part(members).graph) for members in way) for way in ways]
    assert sum(cost(part.graph) for part in parts) == min(costs)
    assert len(set(costs)) > 1


@pytest.mark.parametrize("sizes", [PartSizes(3, 6), PartSizes(5, 5), PartSizes(1, 2)])
def test_parts_cover_all_operators(sizes: PartSizes):
    terms, found = read(repvgg(4))
    parts = Search(terms, SEARCHED, operators, LIMITS, sizes).parts(found.graph)
    inside = [len(operators_of(part.graph)) for part in parts]
    assert sum(inside) == len(operators_of(found.graph))
    assert len(parts) > 1


def test_a_graph_of_few_operators_is_one_part():
    terms, found = read(repvgg(2))
    (part,) = Search(terms, SEARCHED, operators, LIMITS).parts(found.graph)
    assert len(part.outputs) == 1
    assert len(Search(terms, SEARCHED, operators, LIMITS, PartSizes(1, 5)).parts(found.graph)) > 1


def test_parts_of_one_structure_are_searched_once():
    terms, found = read(repvgg(6))
    search = Search(terms, SEARCHED, operators, LIMITS, PartSizes(5, 10))
    search.candidates(found.graph)
    assert len(search.searched) < len(search.parts(found.graph)) + 6


@pytest.mark.parametrize("sizes", [PartSizes(), PartSizes(3, 6)])
def test_candidates_are_sorted_and_distinct_and_end_with_the_graph(sizes: PartSizes):
    terms, found = read(repvgg(3))
    search = Search(terms, SEARCHED, operators, LIMITS, sizes)
    candidates = search.candidates(found.graph)
    graphs = [one.graph for one in candidates]
    assert graphs[-1] == found.graph
    assert candidates[-1].rules == ()
    assert len(set(graphs)) == len(graphs) == LIMITS.kept + 1
    costs = [operators(graph) for graph in graphs[:-1]]
    assert costs == sorted(costs)
    assert costs[0] < operators(found.graph)
    assert all(one.rules for one in candidates[:-1])


@pytest.mark.parametrize("number", range(4))
def test_every_candidate_equals_the_graph(number: int):
    model = repvgg(2)
    expected = interpret(model.module, model.weights, model.inputs)["y0"]
    terms, found = read(model)
    candidates = Search(terms, SEARCHED, operators, LIMITS, PartSizes(3, 6)).candidates(found.graph)
    write_terms(graph_of(model), found, candidates[number].graph)
    model.module.verify()
    result = interpret(model.module, model.weights, model.inputs)["y0"]
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


def test_a_graph_without_operators_stays():
    build = GraphBuilder()
    x = build.input("x0", (2,))
    terms, found = read(Model(build.finish(x), {}, {}))
    search = Search(terms, SEARCHED, operators, LIMITS)
    assert [one.graph for one in search.candidates(found.graph)] == [found.graph]
    assert search.refined(found.graph).graph == found.graph


@pytest.mark.parametrize("sizes", [PartSizes(), PartSizes(3, 6)])
def test_refined_costs_no_more_than_the_graph_by_a_cost_that_does_not_add_up(sizes: PartSizes):
    terms, found = read(repvgg(3))

    def longest(graph: Graph) -> float:
        kernels = kernels_of(graph)
        return critical_time(
            kernels, [10.0 if k.term.node.type == "Conv" else 1.0 for k in kernels]
        )

    refined = Search(terms, SEARCHED, longest, LIMITS, sizes).refined(found.graph)
    assert longest(refined.graph) <= longest(found.graph)
    costs = [operators(found.graph), operators(refined.graph)]
    assert all(a >= b for a, b in pairwise(costs)) or refined.graph == found.graph


def test_refined_keeps_the_graph_where_every_change_costs_more():
    terms, found = read(repvgg(1))
    start = found.graph

    def unchanged(graph: Graph) -> float:
        return 0.0 if graph == start else 1.0

    search = Search(terms, SEARCHED, unchanged, LIMITS)
    assert search.refined(start).graph == start
    assert Backtracking(Matches(terms), SEARCHED, unchanged, LIMITS).run(start)[0].graph == start
