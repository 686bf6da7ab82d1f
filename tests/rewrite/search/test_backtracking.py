"""The search of one part: it finds what is known to be best, within its bounds."""

from collections.abc import Mapping
from functools import partial

import pytest

from compiler.graph.rewriting.terms import Graph, Terms
from compiler.net.spec import KnownTensor
from compiler.rewrite.matches import Matches
from compiler.rewrite.matching import Matcher
from compiler.rewrite.patterns import OneOf, apply, relu, tensors
from compiler.rewrite.rule import Rule
from compiler.rewrite.rules import RULES, SEARCHED
from compiler.rewrite.search.backtracking import (
    MOST_TIMES,
    Backtracking,
    Cost,
    Found,
    Limits,
    everywhere,
    growth,
)
from compiler.rewrite.search.blocks import operators_of
from tests.rewrite.search.crafted import operators, read, repvgg

(X,) = tensors("x")


def renaming(before: str, after: str) -> Rule:
    """A wrong rule that is easily followed: one operator becomes another."""
    return Rule(name=f"{before}-{after}", source=[apply(before, X)], target=[apply(after, X)])


def priced(costs: Mapping[str, float]) -> Cost:
    """The sum of the costs of the operators by their kinds."""

    def cost(graph: Graph) -> float:
        return sum(costs[term.node.type] for term in operators_of(graph))

    return cost


def searched(rules: list[Rule], costs: Mapping[str, float], **limits: float) -> list[Found]:
    """The graphs found from one Relu."""
    terms = Terms()
    start = (terms.apply("Relu", [terms.leaf("input", KnownTensor("float32", (2,)))]),)
    bounds = Limits(**limits)  # pyright: ignore[reportArgumentType]
    return Backtracking(Matches(terms), rules, priced(costs), bounds).run(start)


def kinds(found: list[Found]) -> list[str]:
    """The operators of graphs of one."""
    return [one.graph[0].node.type for one in found]


def test_a_block_of_repvgg_becomes_one_convolution():
    terms, found = read(repvgg(1))
    best = Backtracking(Matches(terms), SEARCHED, operators, Limits(steps=200)).run(found.graph)[0]
    left = [term.node.type for term in operators_of(best.graph)]
    assert left == ["Conv", "Relu"]
    assert len(best.rules) >= 2
    assert best.cost == 11


def test_results_are_sorted_and_distinct_and_hold_the_graph():
    terms, found = read(repvgg(1))
    results = Backtracking(Matches(terms), SEARCHED, operators, Limits(steps=60, kept=100)).run(
        found.graph
    )
    costs = [one.cost for one in results]
    assert costs == sorted(costs)
    assert len({one.graph for one in results}) == len(results)
    assert any(one.graph == found.graph and not one.rules for one in results)
    assert all(one.cost == operators(one.graph) for one in results)


def test_a_rule_that_pays_only_everywhere_is_applied_everywhere():
    """Each application but the last makes the graph dearer than beta allows."""
    terms = Terms()
    leaf = terms.leaf("input", KnownTensor("float32", (2,)))
    names = ("Neg", "Abs", "Exp")
    start = tuple(terms.apply(name, [terms.apply("Relu", [leaf])]) for name in names)
    rules = [renaming(name, "Sqrt") for name in names]

    def cost(graph: Graph) -> float:
        changed = sum(term.node.type == "Sqrt" for term in graph)
        return {0: 10.0, 1: 20.0, 2: 30.0, 3: 1.0}[changed]

    merged = Rule(
        name="everywhere",
        source=[apply(OneOf("before", frozenset(names)), X)],
        target=[apply("Sqrt", X)],
    )
    assert Backtracking(Matches(terms), rules, cost, Limits()).run(start)[0].cost == 10
    best = Backtracking(Matches(terms), [merged], cost, Limits()).run(start)[0]
    assert best.cost == 1
    assert best.rules == ("everywhere",) * 3


def test_a_rule_that_loops_is_swept_once():
    terms = Terms()
    leaf = terms.leaf("input", KnownTensor("float32", (2,)))
    start = (terms.apply("Relu", [leaf]),)
    growing = Rule(
        name="growing", source=[apply("Relu", X)], target=[apply("Relu", apply("Neg", X))]
    )
    _, times = everywhere(partial(Matcher, Matches(terms)), start, growing)
    assert times == MOST_TIMES
    there = renaming("Relu", "Relu")
    assert everywhere(partial(Matcher, Matches(terms)), start, there) == (start, 0)


UPHILL = [renaming("Relu", "Neg"), renaming("Neg", "Abs")]


@pytest.mark.parametrize(("beta", "best"), [(1.1, "Abs"), (1.04, "Relu")])
def test_a_worse_graph_is_searched_from_if_it_costs_less_than_beta_times_the_best(
    beta: float, best: str
):
    costs = {"Relu": 100.0, "Neg": 105.0, "Abs": 50.0}
    found = searched(UPHILL, costs, beta=beta)
    assert kinds(found)[0] == best
    if best == "Abs":
        assert found[0].rules == ("Relu-Neg", "Neg-Abs")


def test_a_descent_follows_every_graph_that_is_cheaper():
    costs = {"Relu": 100.0, "Neg": 90.0, "Abs": 50.0}
    assert kinds(searched(UPHILL[::-1], costs, beta=1.0)) == ["Abs", "Neg", "Relu"]


def test_the_first_of_equal_graphs_stands_for_all():
    costs = {"Relu": 100.0, "Neg": 100.0, "Abs": 100.0}
    assert kinds(searched(UPHILL, costs)) == ["Relu"]


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_no_more_graphs_are_judged_than_asked_for(steps: int):
    terms, found = read(repvgg(2))
    judged: list[Graph] = []

    def cost(graph: Graph) -> float:
        judged.append(graph)
        return operators(graph)

    results = Backtracking(Matches(terms), SEARCHED, cost, Limits(steps=steps, kept=3)).run(
        found.graph
    )
    assert len(judged) == len(set(judged)) <= steps + 1
    assert len(results) <= 3


def test_two_searches_go_the_same_way():
    ways: list[list[tuple[float, tuple[str, ...]]]] = []
    for _ in range(2):
        terms, found = read(repvgg(2))
        results = Backtracking(Matches(terms), SEARCHED, operators, Limits(steps=50)).run(
            found.graph
        )
        ways.append([(one.cost, one.rules) for one in results])
    assert ways[0] == ways[1]


def test_growth_counts_operators_once_and_constants_never():
    (w, v) = tensors("w v", constant=True)
    both = relu(X)
    shared = Rule(
        name="shared",
        source=[apply("Add", both, both)],
        target=[apply("Mul", both, apply("Add", w, v))],
    )
    assert growth(shared) == 0
    assert growth(Rule(name="fewer", source=[relu(relu(X))], target=[relu(X)])) == -1
    assert growth(Rule(name="nothing", source=[relu(X)], target=[X])) == -1
    two = Rule(name="two", source=[relu(X), relu(w)], target=[relu(relu(X)), relu(w)])
    assert growth(two) == 1


def test_rules_that_enlarge_exist_and_rules_that_shrink():
    signs = {(growth(rule) > 0) - (growth(rule) < 0) for rule in RULES}
    assert signs == {-1, 0, 1}
