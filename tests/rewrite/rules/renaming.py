"""Substitutions of variables that make the factors of one term those of another."""

from collections.abc import Iterator, Sequence
from itertools import islice, permutations, product
from typing import Any

import z3

from tests.rewrite.rules.divisions import (
    Index,
    quotient,
    remainder,
    row_major,
    subterms,
)
from tests.rewrite.rules.sums import Call, Factor, Read, Term

Equation = tuple[Index, Index]
"""An integer of one term, and one of another that must be equal."""

Substitution = list[tuple[Any, Index]]

PAIRINGS = 48
"""The most ways to pair the factors of two terms."""


def renamings(term: Term, other: Term) -> Iterator[tuple[Substitution, Substitution]]:
    """Values of the other's variables by the term's, and of the term's by the other's."""
    for equations in islice(_pairings(term.factors, other.factors), PAIRINGS):
        flipped = [(right, left) for left, right in equations]
        forth = solve(_closed(equations), other.variables, term.variables)
        back = solve(_closed(flipped), term.variables, other.variables)
        if forth is not None and back is not None:
            yield forth, back


def _pairings(left: Sequence[Factor], right: Sequence[Factor]) -> Iterator[list[Equation]]:
    """The equations of ways to pair elements of the same tensors that factors read."""
    ours, theirs = by_name(left), by_name(right)
    if {n: len(r) for n, r in ours.items()} != {n: len(r) for n, r in theirs.items()}:
        return
    names = sorted(ours)
    for orders in product(*(permutations(theirs[name]) for name in names)):
        pairs = [
            pair
            for name, order in zip(names, orders, strict=True)
            for pair in zip(ours[name], order, strict=True)
        ]
        yield [e for a, b in pairs for e in zip(a.indices, b.indices, strict=True)]


def by_name(factors: Sequence[Factor]) -> dict[str, list[Read]]:
    """The elements that factors read, by tensor."""
    found: dict[str, list[Read]] = {}
    for item in reads(factors):
        found.setdefault(f"{item.name} {len(item.indices)}", []).append(item)
    return found


def reads(factors: Sequence[Factor]) -> Iterator[Read]:
    """The elements that factors read, inside functions too."""
    for factor in factors:
        if isinstance(factor, Read):
            yield factor
        else:
            for argument in factor.arguments:
                for term in argument:
                    yield from reads(term.factors)


def inner_variables(factors: Sequence[Factor]) -> Iterator[Any]:
    """The variables of sums inside functions."""
    for factor in factors:
        if isinstance(factor, Call):
            for term in (term for argument in factor.arguments for term in argument):
                yield from term.variables
                yield from inner_variables(term.factors)


def _closed(equations: list[Equation]) -> list[Equation]:
    """Equations, and those that quotients and remainders by the same number give together."""
    found = list(equations)
    for left, right in found:
        if not (z3.is_app(right) and right.decl().eq(quotient)):
            continue
        value, divisor = right.children()
        for rest, other in found:
            if z3.is_app(other) and other.eq(remainder(value, divisor)):
                found.append((row_major(left, rest, divisor), value))
    return found


def solve(
    equations: Sequence[Equation], variables: Sequence[Any], free: Sequence[Any]
) -> Substitution | None:
    """The variables from equations whose right sides have them; those that none has are free."""
    known: Substitution = []
    pending = list(variables)
    progress = True
    while pending and progress:
        progress = False
        for left, right in equations:
            found = solved(
                left,
                z3.substitute(right, *known) if known and not isinstance(right, int) else right,
                pending,
            )
            if found is not None:
                known.append(found)
                pending = [v for v in pending if not v.eq(found[0])]
                progress = True
                break
    return _with_unused(known, pending, free)


def _with_unused(
    known: Substitution, pending: list[Any], free: Sequence[Any]
) -> Substitution | None:
    """A substitution whose last variables are those that it does not use yet."""
    used = [value for _, value in known if not isinstance(value, int)]
    inside = {term.get_id() for term in subterms(used)}
    unused = [variable for variable in free if variable.get_id() not in inside]
    if len(pending) > len(unused):
        return None
    return known + list(zip(pending, unused, strict=False))


def solved(left: Index, right: Index, pending: Sequence[Any]) -> tuple[Any, Index] | None:
    """The only pending variable of `right`, so that both are equal; None if it is not linear."""
    if isinstance(right, int):
        return None
    inside = {term.get_id() for term in subterms([right])}
    variables = [variable for variable in pending if variable.get_id() in inside]
    if len(variables) != 1:
        return None
    (variable,) = variables
    step = z3.simplify(z3.substitute(right, (variable, variable + 1)) - right, som=True)
    if not z3.is_int_value(step) or abs(step.as_long()) != 1:
        return None
    rest = z3.substitute(right, (variable, z3.IntVal(0)))
    value = left - rest if step.as_long() == 1 else rest - left
    return variable, z3.simplify(value)
