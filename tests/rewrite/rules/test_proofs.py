"""Every rule is proved, in every case."""

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.rewrite.rule import Rule
from compiler.rewrite.rules import RULES
from compiler.rewrite.rules.gemms import ASSOCIATE, x
from compiler.support.caches import COMPILED_VARIABLE
from tests.rewrite.rules import certificates, prover
from tests.rewrite.rules.certificates import ROOT, imported, prove_once
from tests.rewrite.rules.reasoning import Unproved


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_are_proved(rule: Rule):
    for number, case in enumerate(rule.cases):
        try:
            prove_once(rule, number)
        except Unproved as error:
            error.add_note(f"{rule.name}, case {number}: {case}")
            raise


@pytest.mark.deep
def test_no_rule_needs_its_certificates():
    for rule in RULES:
        for case in rule.cases:
            prover.prove(rule, case)


def test_names_are_unique():
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_proof_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Another text of a rule, or another case, is proved anew; what is not proved never counts."""
    monkeypatch.setenv(COMPILED_VARIABLE, str(tmp_path))
    proved = list[str]()
    monkeypatch.setattr(prover, "prove", lambda rule, case: proved.append(rule.name))
    for _ in range(2):
        prove_once(ASSOCIATE, 0)
    assert proved == [ASSOCIATE.name]
    prove_once(replace(ASSOCIATE, cases=(*ASSOCIATE.cases, *ASSOCIATE.cases)), 1)
    monkeypatch.setattr(certificates, "sources_hash", lambda _: "another text")
    prove_once(ASSOCIATE, 0)
    assert len(proved) == 3
    monkeypatch.undo()
    monkeypatch.setenv(COMPILED_VARIABLE, str(tmp_path / "others"))
    wrong = replace(ASSOCIATE, guard=lambda m: [m.shape(x)[0] < 1])
    for _ in range(2):
        with pytest.raises(Unproved):
            prove_once(wrong, 0)


def test_a_certificate_depends_on_all_that_a_proof_imports():
    files = {str(path.relative_to(ROOT)) for path in imported(Path(prover.__file__))}
    assert {"compiler/rewrite/patterns.py", "tests/rewrite/rules/denotations.py"} <= files
    assert "compiler/net/operators/__init__.py" in files
    assert not [path for path in files if path.startswith("compiler/kernels/")]
