"""Blocks: every operator in one, of bounded sizes, in order, few substitutions across."""

from itertools import chain as chained

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.graph.rewriting.terms import Term
from compiler.rewrite.matches import Matches
from compiler.rewrite.matching import Matcher
from compiler.rewrite.rules import SEARCHED
from compiler.rewrite.search.blocks import Sites, blocks_of, operators_of, spans
from tests.graphs import GraphBuilder
from tests.rewrite.search.crafted import chain, read, repvgg
from tests.strategies import Model, dataflow_graphs

FEW = settings(deadline=None, max_examples=40)


def sites_of(model: Model) -> tuple[list[Term], Sites]:
    """The operators of a model, and the substitutions on them."""
    terms, found = read(model)
    matcher = Matcher(Matches(terms), found.graph)
    return operators_of(found.graph), spans(
        site for rule in SEARCHED for site in matcher.sites(rule)
    )


def crossing(blocks: list[list[Term]], sites: Sites) -> int:
    """How many substitutions have terms in two blocks."""
    number = {term: i for i, block in enumerate(blocks) for term in block}
    return sum(count for members, count in sites.items() if len({number[t] for t in members}) > 1)


@FEW
@given(dataflow_graphs(), st.integers(1, 6))
def test_blocks_cover_all_operators_in_order(model: Model, size: int):
    operators, sites = sites_of(model)
    blocks = blocks_of(operators, sites, size)
    assert sorted(chained(*blocks), key=lambda term: term.number) == operators
    assert all(len(block) <= size for block in blocks)
    assert all(blocks) or not operators
    number = {term: i for i, block in enumerate(blocks) for term in block}
    for term, block in number.items():
        made = [t.node.inputs[0] if t.node.type == "result" else t for t in term.operands]
        assert all(number[t] <= block for t in made if t in number)


def test_a_block_ends_between_two_substitutions():
    """Two blocks of RepVGG in one graph: no substitution is lost where each is a block."""
    model = repvgg(2)
    operators, sites = sites_of(model)
    assert len(operators) == 10
    blocks = blocks_of(operators, sites, 6)
    assert len(blocks) == 2
    assert crossing(blocks, sites) == 0
    assert crossing([operators[:5], operators[5:]], sites) == 0
    assert crossing([operators[:3], operators[3:]], sites) > 0


def test_the_fewest_substitutions_are_divided():
    """Against every way to divide a chain in two at which both ends keep a third."""
    model = chain(["Relu", "Neg", "Relu", "Relu", "Abs", "Relu", "Relu", "Neg", "Abs", "Neg"])
    operators, _ = sites_of(model)
    random = np.random.default_rng(1)
    for _ in range(20):
        pairs = [frozenset(operators[i : i + 2]) for i in range(9)]
        sites = {pair: int(n) for pair, n in zip(pairs, random.integers(0, 5, 9), strict=True)}
        blocks = blocks_of(operators, sites, 7)
        least = min(crossing([operators[:i], operators[i:]], sites) for i in range(3, 8))
        assert crossing(blocks, sites) == least


def test_results_stay_with_their_operator():
    build = GraphBuilder()
    x = build.input("x0", (2, 6))
    parts = build.split("Split", [x, build.constant([1] * 6, "int64")], [(2, 1)] * 6, axis=1)
    model = Model(build.finish(*(build.op("Relu", part) for part in parts)), {}, {})
    operators, sites = sites_of(model)
    assert [term.node.type for term in operators] == ["Split"] + ["Relu"] * 6
    assert sum(map(len, blocks_of(operators, sites, 1))) == 7


def test_a_rule_for_two_of_many_reaches_no_further():
    """A Concat of three: what is before its parts is not on the site."""
    build = GraphBuilder()
    x = build.input("x0", (1, 2, 4, 4))
    parts = [build.op("Relu", build.op("Abs", build.op("Neg", x))) for _ in range(3)]
    whole = build.op("Concat", *parts, shape=(1, 6, 4, 4), axis=1)
    model = Model(build.finish(build.op("Abs", whole)), {}, {})
    _, sites = sites_of(model)
    assert not any(term.node.type == "Neg" for members in sites for term in members)
