"""Rules at small sizes against the interpreter, as a second opinion."""

from itertools import islice

import numpy as np
import pytest

from compiler.rewrite.rule import Rule
from compiler.rewrite.rules import RULES
from tests.rewrite.rules.example_graphs import Example, sizes, typed_source
from tests.rewrite.rules.prover import cases_of


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_hold_at_random_sizes(rule: Rule):
    generator = np.random.default_rng(0)
    case = next(cases_of(rule, rule.cases[len(rule.cases) // 2]))
    proof = typed_source(rule, case)
    tried = 0
    for model in islice(sizes(proof, 4, seed=1), 2):
        example = Example(proof, model, generator)
        assert example.holds(rule), example.match
        tried += 1
    assert tried
