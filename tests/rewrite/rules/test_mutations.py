"""Weakened guards and broken targets are refused: the proofs can fail."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import z3

from compiler.rewrite.patterns import (
    Apply,
    Bindings,
    concat,
    conv,
    matmul,
    relu,
    reshape,
    tensors,
    transpose,
)
from compiler.rewrite.rule import Case, Condition, Rule, always
from compiler.rewrite.rules import RULES, attention
from compiler.rewrite.rules.convolutions import (
    IMAGES,
    MERGE_GROUPS,
    MERGE_SIBLINGS,
    MERGE_SUMMED,
    b,
    v,
    w,
    window,
    x,
)
from compiler.rewrite.rules.gemms import ASSOCIATE, y, z
from compiler.rewrite.rules.gemms import x as a
from tests.rewrite.rules import reasoning
from tests.rewrite.rules.certificates import concluded_once
from tests.rewrite.rules.prover import Proof, SymbolicBindings, cases_of, prove
from tests.rewrite.rules.reasoning import Unproved
from tests.rewrite.rules.sizes import formula

SPREAD = 2
"""In how many cases of a rule, spread over all, a condition is tried first."""
GUARDED = [rule for rule in RULES if rule.guard is not always]
MUTATED = [
    pytest.param(rule, id=rule.name, marks=() if number % 8 == 0 else pytest.mark.deep)
    for number, rule in enumerate(GUARDED)
]
"""Every rule with a guard, of which a test by default takes some."""


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch):
    """Questions about wrong rules often have no quick answer."""
    monkeypatch.setattr(reasoning, "EFFORT", 400_000)


def weakened(rule: Rule, dropped: int) -> Rule:
    """A rule without one condition of its guard."""

    def guard(bindings: Bindings) -> Sequence[Condition]:
        return [c for i, c in enumerate(rule.guard(bindings)) if i != dropped]

    return replace(rule, guard=guard)


def needed(rule: Rule, case: Case, dropped: int) -> bool | None:
    """Whether a proof fails without a condition; None if the types and the others imply it."""
    proof = Proof(weakened(rule, dropped), case)
    sources = proof.assume_source()
    condition = formula(rule.guard(SymbolicBindings(case))[dropped])
    if z3.is_true(condition) or proof.reasoner.follows(condition):
        return None
    try:
        proof.compare(sources)
    except Unproved:
        return True
    return False


STRICTER = frozenset(
    """
    average-of-sum binary-of-resizes binary-of-transposes distribute-convolution-over-add
    distribute-matmul-over-left-add distribute-matmul-over-right-add 
    fold-scale-after-matmul
    fold-shift-after-gemm fold-skip-into-depthwise-convolution
    move-divisor-of-rows-after-matmul move-divisor-of-rows-before-matmul
    move-factor-of-rows-after-matmul move-factor-of-rows-before-matmul
    sum-images-of-convolutions sum-of-averages sum-of-resizes
    sum-rows-of-matmuls sum-sibling-gemms sum-sibling-matmuls transpose-of-binary
    """.split()
)
"""Rules that hold for more than their guards allow, mostly for tensors that are broadcast."""


@pytest.mark.parametrize("rule", MUTATED)
def test_each_condition_of_a_guard_is_needed(rule: Rule):
    kept = concluded_once(lambda: needed_conditions(rule), Path(__file__), "mutations", rule.name)
    answers: list[bool | None] = json.loads(kept)
    assert (False in answers) == (rule.name in STRICTER), answers
    if set(answers) == {None}:
        pytest.skip("the types imply every condition that the cases leave open")


def needed_conditions(rule: Rule) -> bytes:
    """Whether each condition of a rule's guard is needed, as JSON."""
    cases = [full for case in rule.cases for full in cases_of(rule, case)]
    answers = [answer(rule, cases, dropped) for dropped in range(conditions(rule, cases))]
    return json.dumps(answers).encode()


def conditions(rule: Rule, cases: Sequence[Case]) -> int:
    """The most conditions of a guard."""
    return max(len(rule.guard(SymbolicBindings(case))) for case in cases)


def answer(rule: Rule, cases: Sequence[Case], dropped: int) -> bool | None:
    """Whether any case needs a condition; None if it is implied in all of them."""
    found = None
    spread = cases[:: -(-len(cases) // SPREAD)]
    for case in (*spread, *(case for case in cases if case not in spread)):
        if found is None and case not in spread:
            break
        if dropped < len(rule.guard(SymbolicBindings(case))):
            here = needed(rule, case, dropped)
            if here:
                return True
            found = here if found is None else found
    return found


def refused(rule: Rule) -> bool:
    """Whether no case of a rule is proved."""
    for case in rule.cases:
        with pytest.raises(Unproved):
            prove(rule, case)
    return True


def test_exchanged_results_are_refused():
    assert refused(replace(MERGE_SIBLINGS, target=MERGE_SIBLINGS.target[::-1]))


def test_exchanged_weights_are_refused():
    p, q = tensors("p q")
    target = conv(concat(p, q, axis=1), concat(v, w, axis=1), b, window)
    source = MERGE_SUMMED.source
    assert refused(replace(MERGE_SUMMED, source=source, target=(target,), guard=always))


def test_exchanged_operands_are_refused():
    assert refused(replace(ASSOCIATE, target=(matmul(matmul(y, a), z),), cases=(Case(),)))


def test_exchanged_heads_and_columns_are_refused():
    """The weights of a head are columns next to each other, not every so many."""

    def columns_first(bindings: Bindings):
        inner, *_ = bindings.shape(attention.w)
        *_, heads, size = bindings.value(attention.shape)
        return (inner, size, heads)

    (target,) = attention.HEADS.target
    assert isinstance(target, Apply)
    rows, _ = target.inputs
    weights = transpose(reshape(attention.w, columns_first), (2, 0, 1))
    assert refused(replace(attention.HEADS, target=(matmul(rows, weights),)))


def test_a_lost_relu_is_refused():
    rule = Rule(
        name="lost-relu",
        source=(relu(conv(x, w, b, window)),),
        target=(conv(x, w, b, window),),
        cases=IMAGES,
    )
    assert refused(rule)


def test_grouped_merge_is_wrong_without_equal_outputs_in_each_group(
    monkeypatch: pytest.MonkeyPatch,
):
    """TASO's wrong rules are this one without its guard."""
    assert refused(replace(MERGE_GROUPS, guard=always))
    monkeypatch.undo()
    prove(MERGE_GROUPS, MERGE_GROUPS.cases[0])


def test_a_guard_that_holds_for_no_sizes_proves_nothing():
    with pytest.raises(Unproved, match="no sizes"):
        prove(replace(ASSOCIATE, guard=lambda m: [m.shape(a)[0] < 1]), Case())


def test_a_guard_must_not_branch():
    with pytest.raises(Exception, match="branches"):
        prove(replace(ASSOCIATE, guard=lambda m: [bool(m.shape(a)[0] == 1)]), Case())
