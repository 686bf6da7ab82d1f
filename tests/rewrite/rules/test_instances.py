"""Every rule fires on small graphs, where it keeps the results, and its guard refuses others."""

from collections.abc import Iterator
from itertools import islice
from random import Random

import numpy as np
import pytest

from compiler.frontend.interpreter import interpret
from compiler.graph.rewriting.dataflow import read_terms, write_terms
from compiler.graph.rewriting.terms import Terms
from compiler.rewrite.matches import Matches
from compiler.rewrite.matching import Matcher
from compiler.rewrite.patterns import Apply, OneOf
from compiler.rewrite.rule import Case, Rule, always
from compiler.rewrite.rules import RULES, SEARCHED
from compiler.rewrite.rules.resizing import resize_example
from tests.apply_passes import graph_of
from tests.rewrite.rules.instances import Instance, drawn, model_of, patterns_of
from tests.rewrite.rules.sequences import rewritten

TRIES = 4000
EXACT = frozenset(
    "Add Concat Conv Gemm MatMul Mul Neg Pad Relu Reshape Slice Sub Transpose".split()
)
"""Operators that are exact on whole numbers."""

_LINE = {"strides": (1,), "dilations": (1,)}
_TWO_SIZES = Case(rank=3, unknowns={**_LINE, "pads": (1, 1), "small pads": (0, 0), "group": 1})
EXAMPLES = {
    "merge-convolutions-of-two-sizes": _TWO_SIZES,
    "sum-convolutions-of-two-sizes": _TWO_SIZES,
    "merge-sibling-grouped-convolutions": Case(
        rank=3, unknowns={**_LINE, "pads": (0, 0), "group": 2, "second group": 2}
    ),
}
"""Cases that random numbers seldom meet."""

_VECTOR = Case(ranks={"x": 1, "y": 2, "z": 2, "w": 2, "v": 2})
_SAME_AXIS = Case(rank=2, unknowns={"axis": 1, "other axis": 1})
_SPACE = {"axis": 2}
NEAR_MISSES = {
    "enlarge-kernel": Case(rank=3, unknowns={**_LINE, "pads": (0, 0), "margin": (-1, 1)}),
    "merge-sibling-matmuls": _VECTOR,
    "associate-matmuls-to-the-right": _VECTOR,
    "associate-matmuls-to-the-left": _VECTOR,
    "narrow-matmul": Case(unknowns={"axis": 0}),
    "split-matmul-of-concat": Case(unknowns={"axis": 0}),
    "split-columns-of-matmul": Case(unknowns={"axis": 0}),
    "concat-of-matmuls-with-same-weights": Case(unknowns={"axis": 1}),
    "split-rows-of-matmul": Case(unknowns={"axis": 1}),
    "transpose-of-matmul": Case(rank=3, unknowns={"perm": (1, 0, 2)}),
    "matmul-of-transposes": Case(unknowns={"perm": (0, 1)}),
    "transposed-projection": Case(unknowns={"perm": (1, 0)}),
    "slice-each-part-of-concat": _SAME_AXIS,
    "exchange-slices": _SAME_AXIS,
    "transpose-in-order": Case(unknowns={"perm": (1, 0)}),
    "pool-of-concat": Case(rank=3, unknowns={"pool": ("GlobalMaxPool", ()), **_SPACE}),
    "unary-of-resize": Case(rank=4, unknowns=resize_example("linear", 2)),
    "resize-of-unary": Case(rank=4, unknowns=resize_example("linear", 2)),
    "concat-of-resizes": Case(rank=4, unknowns={**resize_example("linear", 2), **_SPACE}),
    "resize-of-concat": Case(rank=4, unknowns={**resize_example("linear", 2), **_SPACE}),
}
"""Cases that a guard refuses where no case of the rule's proof is refused."""


def instances(rule: Rule, allowed: bool, cases: tuple[Case, ...]) -> Iterator[Instance]:
    """Instances that the guard allows, or refuses."""
    random = Random(rule.name)
    for _ in range(TRIES):
        instance = drawn(rule, random, cases)
        if instance is not None and all(rule.guard(instance.match)) == allowed:
            yield instance


def check(rule: Rule, instance: Instance, seed: int) -> bool:
    """A rule and random ones after it keep the results of an instance; whether it changed it."""
    whole = _is_exact(rule)
    model = model_of(instance.roots, np.random.default_rng(seed), whole=whole)
    before = interpret(model.module, model.weights, model.inputs, precise=True)
    graph, terms = graph_of(model), Terms()
    read = read_terms(graph, terms)
    matcher = Matcher(Matches(terms), read.graph)
    sites = list(matcher.sites(rule))
    assert sites, f"{rule.name} does not match {read.graph}"
    results = matcher.apply(sites[seed % len(sites)])
    if results is None:
        return False
    write_terms(graph, read, rewritten(terms, results, Random(seed), 2))
    model.module.verify()
    after = interpret(model.module, model.weights, model.inputs, precise=True)
    for name, array in before.items():
        if whole:
            np.testing.assert_array_equal(after[name], array)
        else:
            np.testing.assert_allclose(after[name], array, rtol=1e-8, atol=1e-8)
    return True


def _is_exact(rule: Rule) -> bool:
    kinds = [p.kind for p in patterns_of(rule.source) if isinstance(p, Apply)]
    return not any(isinstance(kind, OneOf) or kind not in EXACT for kind in kinds)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_fires_and_keeps_the_results(rule: Rule):
    example = EXAMPLES.get(rule.name)
    cases = (*rule.cases, example, example, example) if example else ()
    variable = (i for i in instances(rule, True, cases) if not any(r.constant for r in i.roots))
    found = list(islice(variable, 5))
    assert len(found) >= 3
    assert any([check(rule, instance, seed) for seed, instance in enumerate(found)])


GUARDED = [rule for rule in RULES if rule.guard is not always]


@pytest.mark.parametrize("rule", GUARDED, ids=lambda rule: rule.name)
def test_guard_refuses_a_near_miss(rule: Rule):
    case = NEAR_MISSES.get(rule.name)
    for instance in islice(instances(rule, False, (case,) if case else ()), 20):
        model = model_of(instance.roots, np.random.default_rng(0))
        terms = Terms()
        read = read_terms(graph_of(model), terms)
        sites = Matcher(Matches(terms), read.graph).sites(rule)
        margin = instance.match.unknowns.get("margin")
        if not [site for site in sites if site.match.unknowns.get("margin") == margin]:
            return
    pytest.fail(f"the guard of {rule.name} refuses nothing")


def test_names_are_unique_and_searched_rules_are_rules():
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert set(SEARCHED) < set(RULES)
