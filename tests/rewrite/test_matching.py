"""Where rules match in graphs, and which terms they replace."""

from collections.abc import Callable, Iterator, Sequence
from unittest.mock import Mock

import numpy as np
import pytest
from xdsl.ir import SSAValue

from compiler.frontend.importing import import_model
from compiler.graph.rewriting.dataflow import read_terms
from compiler.graph.rewriting.terms import Terms
from compiler.rewrite import matches
from compiler.rewrite.matches import Matches, Replayed, Site
from compiler.rewrite.matching import Matcher
from compiler.rewrite.rules import SEARCHED
from compiler.rewrite.rules.concats import ASSOCIATE
from compiler.rewrite.rules.elementwise import ASSOCIATE_ADD, CONCAT_OF_UNARY, MERGE_UNARY
from compiler.rewrite.rules.gemms import MERGE_ROWS, MERGE_SIBLINGS
from examples import named
from tests.apply_passes import graph_of
from tests.graphs import GraphBuilder
from tests.strategies import Model

Make = Callable[[GraphBuilder], Sequence[SSAValue]]


def matcher_of(make: Make, *, all_constant: bool = False) -> Matcher:
    """The matcher of the graph that a function makes."""
    build = GraphBuilder()
    module = build.finish(*make(build))
    terms = Terms()
    read = read_terms(graph_of(Model(module, build.weights, {})), terms)
    return Matcher(Matches(terms, all_constant=all_constant), read.graph)


def _matmuls(build: GraphBuilder) -> list[SSAValue]:
    """Three MatMuls of one tensor and one of another with weights of the first."""
    x, y = (build.input(name, (2, 3)) for name in "xy")
    weights = [build.weight(np.full((3, 4), n, np.float32)) for n in range(3)]
    pairs = [*((x, weight) for weight in weights), (y, weights[0])]
    return [build.op("MatMul", *pair, shape=(2, 4)) for pair in pairs]


def test_siblings_share_a_tensor_and_are_matched_once():
    matcher = matcher_of(_matmuls)
    first, second, third, other = matcher.graph
    pairs = {site.roots for site in matcher.sites(MERGE_SIBLINGS)}
    assert pairs == {(first, second), (first, third), (second, third)}
    assert [site.roots for site in matcher.sites(MERGE_ROWS)] == [(first, other)]


@pytest.mark.parametrize(("network", "rules"), [("maxvit_nano", 8), ("yolov8n", 5)])
def test_looking_at_inputs_first_misses_no_site(
    network: str, rules: int, monkeypatch: pytest.MonkeyPatch
):

    def sites() -> list[tuple[str, list[list[int]]]]:
        imported, terms = import_model(named.load(f"field:{network}")), Terms()
        graph = read_terms(graph_of(Model(imported.module, imported.weights, {})), terms).graph
        matcher = Matcher(Matches(terms), graph)
        return [(rule.name, [numbers(site) for site in matcher.sites(rule)]) for rule in SEARCHED]

    def numbers(site: Site) -> list[int]:
        return [term.number for term in (*site.roots, *site.match.tensors.values())]

    found = sites()
    monkeypatch.setattr(matches, "_has_inputs", Mock(return_value=True))
    assert found == sites()
    assert sum(len(places) > 0 for _, places in found) >= rules


def test_inputs_are_weights_only_in_derivations():
    def make(build: GraphBuilder) -> list[SSAValue]:
        x, y, z = (build.input(name, (3, 3)) for name in "xyz")
        return [build.op("MatMul", x, y), build.op("MatMul", x, z)]

    assert not list(matcher_of(make).sites(MERGE_SIBLINGS))
    assert len(list(matcher_of(make, all_constant=True).sites(MERGE_SIBLINGS))) == 1


def test_whole_numbers_are_left_alone():
    def make(build: GraphBuilder, dtype: str) -> list[SSAValue]:
        x, y, z = (build.input(name, (3,), dtype) for name in "xyz")
        return [build.op("Add", build.op("Add", x, y), z)]

    for dtype, count in (("int32", 0), ("float16", 2), ("bfloat16", 2)):
        matcher = matcher_of(lambda build, dtype=dtype: make(build, dtype))
        assert len(list(matcher.sites(ASSOCIATE_ADD))) == count


def test_tensors_of_different_types_are_not_merged():
    def make(build: GraphBuilder) -> list[SSAValue]:
        types = ("float32", "float16", "float32")
        tensors = [build.input(f"x{i}", (3,), dtype) for i, dtype in enumerate(types)]
        return [build.op("Relu", x) for x in tensors]

    matcher = matcher_of(make)
    first, _, third = matcher.graph
    assert [site.roots for site in matcher.sites(MERGE_UNARY)] == [(first, third)]


def test_rule_for_two_parts_applies_to_neighbours_in_a_concat():
    def make(build: GraphBuilder) -> list[SSAValue]:
        x, y = (build.input(name, (2, 3)) for name in "xy")
        parts = [x, build.op("Relu", x), build.op("Relu", y), y]
        return [build.op("Concat", *parts, shape=(8, 3), axis=0)]

    matcher = matcher_of(make)
    (site,) = matcher.sites(CONCAT_OF_UNARY)
    assert site.first == 1
    result = matcher.apply(site)
    assert result is not None
    assert [term.node.type for term in result[0].operands] == ["input", "Relu", "input"]
    assert [term.node.type for term in list(result[0].operands)[1].operands] == ["Concat"]
    assert result[0].shape == (8, 3)


def test_merge_of_a_tensor_with_what_it_depends_on_is_refused():
    def make(build: GraphBuilder) -> list[SSAValue]:
        x = build.input("x", (2, 3))
        return [build.op("Relu", build.op("Relu", x))]

    matcher = matcher_of(make)
    assert [matcher.apply(site) for site in matcher.sites(MERGE_UNARY)] == [None, None]


def test_nested_concats_are_one_after_any_rule():
    def make(build: GraphBuilder) -> list[SSAValue]:
        x = build.input("x", (2, 3))
        inner = build.op("Concat", x, x, shape=(4, 3), axis=0)
        return [build.op("Concat", inner, x, shape=(6, 3), axis=0)]

    matcher = matcher_of(make)
    results = {matcher.apply(site) for site in matcher.sites(ASSOCIATE)}
    (flat,) = (result[0] for result in results if result is not None)
    assert [term.node.type for term in flat.operands] == ["input"] * 3


def test_a_concat_of_three_is_one_of_a_concat_of_two():
    """Though none of its inputs is a Concat."""

    def make(build: GraphBuilder) -> list[SSAValue]:
        parts = [build.input(name, (2, 3)) for name in "xyz"]
        return [build.op("Concat", *parts, shape=(6, 3), axis=0)]

    assert len(list(matcher_of(make).sites(ASSOCIATE))) == 1


def test_what_was_found_at_a_term_holds_in_every_graph_with_it():
    """Of two graphs that share terms the second finds the same sites, and makes nothing anew."""
    matcher = matcher_of(_matmuls)
    sites = list(matcher.sites(MERGE_SIBLINGS))
    changes = [matcher.matches.changes(site) for site in sites]
    fewer = Matcher(matcher.matches, matcher.graph[1:])
    (again,) = fewer.sites(MERGE_SIBLINGS)
    assert again in sites
    assert matcher.matches.changes(again) is changes[sites.index(again)]
    whole = matcher.apply(again)
    assert whole is not None
    assert fewer.apply(again) == whole[1:]


def test_several_readers_take_turns():
    """Each goes on where the furthest one stopped, and asks the source no more than that."""
    asked = list[int]()

    def source() -> Iterator[int]:
        for number in range(4):
            asked.append(number)
            yield number

    replayed = Replayed(source())
    first, second = iter(replayed), iter(replayed)
    assert (next(first), next(first), next(second)) == (0, 1, 0)
    assert asked == [0, 1]
    assert [*second] == [1, 2, 3] == [1, *first]
    assert [*replayed] == asked == [0, 1, 2, 3]
