"""TASO's rules: derived from ours, or refused with a counterexample."""

from functools import cache

import numpy as np
import pytest

from compiler.graph.rewriting.terms import Terms
from compiler.rewrite.rules import RULES
from tests.rewrite.rules.derivation import derivation
from tests.rewrite.rules.evaluation import evaluate, random_array
from tests.rewrite.rules.taso import Shape, TasoRule, example, graphs, leaf, taso_rules

COUNT = 133
WRONG = frozenset({99, 100, 130, 131})
"""A Concat of convolutions along both axes: only equal outputs in each group keep the groups."""
DENSE = frozenset({98, 105, 125, 126, 127, 128, 129})
"""Rules of convolutions without groups that TASO applies to those with groups, too."""


@cache
def rules() -> list[TasoRule]:
    """The rules of the file."""
    return taso_rules()


def differ(rule: TasoRule, shapes: dict[int, Shape]) -> bool:
    """Whether both sides differ for integers of some shapes."""
    terms, generator = Terms(), np.random.default_rng(0)
    source, target = graphs(terms, rule, shapes)
    leaves = {
        leaf(terms, name, shape): random_array(generator, shape) for name, shape in shapes.items()
    }
    pairs = zip(evaluate(source, leaves), evaluate(target, leaves), strict=True)
    return any(not np.array_equal(a, b) for a, b in pairs)


def test_the_file_is_whole():
    assert len(rules()) == COUNT


@pytest.mark.parametrize("number", sorted(set(range(COUNT)) - WRONG))
def test_rule_is_derived(number: int):
    shapes = example(rules()[number])
    assert shapes is not None
    terms = Terms()
    source, target = graphs(terms, rules()[number], shapes)
    assert derivation(terms, RULES, source, target) is not None
    assert not differ(rules()[number], shapes)


GROUPED = [n for n, rule in enumerate(taso_rules()) if rule.has_convolutions]


@pytest.mark.parametrize("number", GROUPED)
def test_rule_with_groups_is_derived_or_refused(number: int):
    rule = rules()[number]
    shapes = example(rule, dense=False)
    if shapes is None:
        assert number not in WRONG | DENSE
        return
    if number in WRONG | DENSE:
        assert differ(rule, shapes)
        return
    terms = Terms()
    assert derivation(terms, RULES, *graphs(terms, rule, shapes)) is not None
    assert not differ(rule, shapes)
