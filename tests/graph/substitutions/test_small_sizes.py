"""Rules at small sizes against the interpreter: exhaustively, or as a second opinion."""

from itertools import islice

import numpy as np
import pytest

from compiler.graph.rewriting.rule import Case, Rule
from compiler.graph.substitutions import RULES
from tests.graph.substitutions.example_graphs import Example, sizes, typed_source
from tests.graph.substitutions.prover import cases_of

CHECKED = [
    pytest.param(rule, case, id=f"{rule.name}-{number}")
    for rule in RULES
    if rule.checked
    for number, case in enumerate(rule.cases)
]
LARGEST = 2
"""Every extent up to this is tried of rules that are not proved."""


@pytest.mark.parametrize(("rule", "case"), CHECKED)
def test_rules_without_proof_hold_for_all_small_sizes(rule: Rule, case: Case):
    generator = np.random.default_rng(0)
    for full in cases_of(rule, case):
        proof = typed_source(rule, full)
        tried = 0
        for model in sizes(proof, LARGEST):
            example = Example(proof, model, generator)
            assert example.holds(rule), example.match
            tried += 1
        assert tried


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
