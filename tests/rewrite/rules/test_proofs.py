"""Every rule is proved, in every case."""

import pytest

from compiler.rewrite.rule import Case, Rule
from compiler.rewrite.rules import RULES
from tests.rewrite.rules.prover import prove

PROVED = [
    pytest.param(rule, case, id=f"{rule.name}-{number}")
    for rule in RULES
    for number, case in enumerate(rule.cases)
]


@pytest.mark.parametrize(("rule", "case"), PROVED)
def test_rules_are_proved(rule: Rule, case: Case):
    prove(rule, case)


def test_names_are_unique():
    assert len({rule.name for rule in RULES}) == len(RULES)
