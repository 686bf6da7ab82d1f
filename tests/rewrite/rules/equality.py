"""Equality of sums: their terms are paired, up to a change of variables."""

from fractions import Fraction

import z3

from tests.rewrite.rules.counting import counted
from tests.rewrite.rules.divisions import Formula
from tests.rewrite.rules.pinning import pinned
from tests.rewrite.rules.reasoning import Reasoner, Unproved
from tests.rewrite.rules.renaming import Substitution, renamings
from tests.rewrite.rules.sums import (
    Call,
    Factor,
    Sum,
    Term,
    factor_with,
    possible,
    scaled,
    substituted,
)


def equal(reasoner: Reasoner, left: Sum, right: Sum) -> bool:
    """Whether two sums are proved equal."""
    return not leftover(reasoner, left, right)


def leftover(reasoner: Reasoner, left: Sum, right: Sum) -> Sum:
    """The terms of a difference that do not cancel."""
    difference = possible(reasoner, left + scaled(right, Fraction(-1)))
    rest = _without_pairs(reasoner, difference)
    simpler = counted(reasoner, pinned(reasoner, rest))
    return rest if simpler == rest else _without_pairs(reasoner, simpler)


def _without_pairs(reasoner: Reasoner, value: Sum) -> Sum:
    """A sum without the terms that cancel."""
    rest = list(value)
    kept: list[Term] = []
    while rest:
        term = rest.pop(0)
        partner = next((t for t in rest if cancel(reasoner, term, t)), None)
        if partner is not None:
            rest.remove(partner)
        elif not _group_vanishes(reasoner, term, rest):
            kept.append(term)
    return tuple(kept)


def cancel(reasoner: Reasoner, term: Term, other: Term) -> bool:
    """Whether two terms add up to 0: one to one in their variables, with equal factors."""
    if term.coefficient != -other.coefficient or not _alike(term, other):
        return False
    return any(_inverse(reasoner, term, other, *pair) for pair in renamings(term, other))


def _alike(term: Term, other: Term) -> bool:
    return sorted(map(_head, term.factors)) == sorted(map(_head, other.factors))


def _head(factor: Factor) -> tuple[str, int]:
    return factor.name, len(factor.arguments if isinstance(factor, Call) else factor.indices)


def _inverse(
    reasoner: Reasoner, term: Term, other: Term, forth: Substitution, back: Substitution
) -> bool:
    """Whether substitutions map the sets that two terms are summed over onto each other."""
    forth = [(v, z3.IntVal(i) if isinstance(i, int) else i) for v, i in forth]
    back = [(v, z3.IntVal(i) if isinstance(i, int) else i) for v, i in back]
    return (
        _maps(reasoner, term, other, forth, back)
        and _maps(reasoner, other, term, back, forth)
        and _factors_equal(reasoner, term, other, forth)
    )


def _maps(
    reasoner: Reasoner, term: Term, other: Term, forth: Substitution, back: Substitution
) -> bool:
    """Whether `forth` maps a term's set into the other's, and `back` undoes it."""
    (image,) = substituted((other,), forth)
    wanted = [c for c in image.conditions if not _is_among(c, term.conditions)]
    undone = (
        [variable == z3.substitute(value, *forth) for variable, value in back]
        if forth
        else [variable == value for variable, value in back]
    )
    with reasoner.assuming(term.conditions):
        return all(reasoner.follows(formula) for formula in (*wanted, *undone))


def _is_among(formula: Formula, known: tuple[Formula, ...]) -> bool:
    return any(formula.eq(item) for item in known)


def _factors_equal(reasoner: Reasoner, term: Term, other: Term, forth: Substitution) -> bool:
    theirs = [factor_with(factor, forth) for factor in other.factors]
    with reasoner.assuming(term.conditions):
        return same_factors(reasoner, list(term.factors), theirs)


def same_factors(reasoner: Reasoner, left: list[Factor], right: list[Factor]) -> bool:
    """Whether factors are equal in some order."""
    if not left:
        return not right
    for factor in right:
        if same_factor(reasoner, left[0], factor):
            return same_factors(reasoner, left[1:], [f for f in right if f is not factor])
    return False


def same_factor(reasoner: Reasoner, left: Factor, right: Factor) -> bool:
    """Whether two factors are equal: reads of the same element, or calls with equal arguments."""
    if _head(left) != _head(right):
        return False
    if isinstance(left, Call) or isinstance(right, Call):
        assert isinstance(left, Call)
        assert isinstance(right, Call)
        pairs = zip(left.arguments, right.arguments, strict=True)
        return all(equal(reasoner, a, b) for a, b in pairs)
    return all(reasoner.same(a, b) for a, b in zip(left.indices, right.indices, strict=True))


def _group_vanishes(reasoner: Reasoner, term: Term, rest: list[Term]) -> bool:
    """Whether a term and others with the same factors add up to 0; takes those from the rest."""
    weight = _weight(term)
    members: list[Term] = []
    for other in rest:
        image = _image(reasoner, term, other)
        if image is not None:
            members.append(other)
            weight = weight + image
    if not members or not reasoner.follows(weight == 0):
        return False
    rest[:] = [other for other in rest if other not in members]
    return True


def _weight(term: Term) -> Formula:
    c = term.coefficient
    value = z3.RealVal(str(c))
    return z3.If(z3.And(*term.conditions), value, z3.RealVal(0)) if term.conditions else value


def _image(reasoner: Reasoner, term: Term, other: Term) -> Formula | None:
    """The other's number where its conditions hold, by the term's variables."""
    if not _alike(term, other):
        return None
    for forth, back in renamings(term, other):
        forth = [(v, z3.IntVal(i) if isinstance(i, int) else i) for v, i in forth]
        back = [(v, z3.IntVal(i) if isinstance(i, int) else i) for v, i in back]
        (image,) = substituted((other,), forth)
        if _one_to_one(reasoner, image, other, forth, back) and _factors_equal(
            reasoner, image_of(term, image), other, forth
        ):
            return _weight(image)
    return None


def image_of(term: Term, image: Term) -> Term:
    """A term where the conditions of another hold."""
    return Term(term.coefficient, term.variables, image.conditions, term.factors)


def _one_to_one(
    reasoner: Reasoner, image: Term, other: Term, forth: Substitution, back: Substitution
) -> bool:
    """Whether each element of the other's set has exactly one integer that maps to it."""
    there = [v == (z3.substitute(i, *back) if back else i) for v, i in forth]
    again = [v == (z3.substitute(i, *forth) if forth else i) for v, i in back]
    with reasoner.assuming(other.conditions):
        onto = all(reasoner.follows(formula) for formula in there)
    with reasoner.assuming(image.conditions):
        return onto and all(reasoner.follows(formula) for formula in again)


def check_equal(reasoner: Reasoner, left: Sum, right: Sum, what: str) -> None:
    """Raise Unproved unless two sums are equal."""
    rest = leftover(reasoner, left, right)
    if rest:
        raise Unproved(f"{what}: {len(rest)} terms differ, the first {rest[0]}")
