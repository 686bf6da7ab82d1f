"""Sums over variables on which nothing depends, and numbers of elements that cancel."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import z3

from tests.rewrite.rules.divisions import Formula, Index, subterms
from tests.rewrite.rules.reasoning import Reasoner, is_zero
from tests.rewrite.rules.sums import Call, Factor, Read, Sum, Term

INTEGER = "integer"
"""The name of the function from an integer to the same real number."""


MEAN_WEIGHT = "weight of mean"
"""How the names of weights begin that are 1 in all.

Their arguments are extents, the place of the mean, and an index for each extent.
"""


def counted(reasoner: Reasoner, value: Sum) -> Sum:
    """A sum in which n summands that are all the same are n times it, and n times 1 / n is 1."""
    averaged = (_without_means(term) for term in value)
    return tuple(_without_ratios(reasoner, _counted(reasoner, term)) for term in averaged)


def _without_means(term: Term) -> Term:
    """A term without the weights of a mean of which nothing else depends on the index."""
    for factor in term.factors:
        if isinstance(factor, Read) and factor.name.startswith(MEAN_WEIGHT):
            others = tuple(f for f in term.factors if f is not factor)
            count = len(factor.indices) // 3
            extents, inner = factor.indices[:count], factor.indices[2 * count :]
            rest = replace(term, factors=others)
            if all(_runs_over(rest, *pair) for pair in zip(inner, extents, strict=True)):
                return _without_means(_without(rest, inner))
    return term


def _runs_over(term: Term, variable: Any, extent: Index) -> bool:
    """Whether a variable of a term takes each number below an extent once, and is not read."""
    if not any(v is variable or v.eq(variable) for v in term.variables):
        return False
    found = _extent(term, variable)
    return found is not None and is_zero(z3.simplify(found - extent))


def _without(term: Term, variables: Sequence[Any]) -> Term:
    """A term without some variables and their bounds."""
    kept = tuple(v for v in term.variables if not any(v.eq(item) for item in variables))
    conditions = tuple(
        c for c in term.conditions if not any(_has(c, variable) for variable in variables)
    )
    return replace(term, variables=kept, conditions=conditions)


def _counted(reasoner: Reasoner, term: Term) -> Term:
    for variable in term.variables:
        extent = _extent(term, variable)
        if extent is not None:
            others = tuple(v for v in term.variables if v is not variable)
            kept = tuple(c for c in term.conditions if not _has(c, variable))
            factors = (*term.factors, Read(INTEGER, (extent,)))
            with reasoner.assuming(kept):
                if not reasoner.follows(extent >= 0):
                    return term
            return _counted(reasoner, Term(term.coefficient, others, kept, factors))
    return term


def _extent(term: Term, variable: Any) -> Index | None:
    """The extent of a variable that only its bounds mention."""
    about = [c for c in term.conditions if _has(c, variable)]
    uppers = [c for c in about if c.decl().kind() == z3.Z3_OP_LT and c.arg(0).eq(variable)]
    lowers = [c for c in about if c.eq(variable >= 0)]
    if len(about) != 2 or len(uppers) != 1 or len(lowers) != 1:
        return None
    extent = uppers[0].arg(1)
    unused = not _has(extent, variable) and not any(_reads(f, variable) for f in term.factors)
    return extent if unused else None


def _has(formula: Formula, variable: Any) -> bool:
    return any(term.eq(variable) for term in subterms([formula]))


def _reads(factor: Factor, variable: Any) -> bool:
    if isinstance(factor, Read):
        return any(not isinstance(i, int) and _has(i, variable) for i in factor.indices)
    return any(_term_reads(t, variable) for argument in factor.arguments for t in argument)


def _term_reads(term: Term, variable: Any) -> bool:
    conditions = any(_has(c, variable) for c in term.conditions)
    return conditions or any(_reads(factor, variable) for factor in term.factors)


def _without_ratios(reasoner: Reasoner, term: Term) -> Term:
    for count in term.factors:
        for other in term.factors:
            if _inverse(reasoner, count, other):
                rest = tuple(f for f in term.factors if f is not count and f is not other)
                return _without_ratios(reasoner, replace(term, factors=rest))
    return term


def _inverse(reasoner: Reasoner, count: Factor, other: Factor) -> bool:
    """Whether one factor is an integer of at least 1 and the other its reciprocal."""
    if not (isinstance(count, Read) and count.name == INTEGER):
        return False
    divisor = _divisor(other)
    (value,) = count.indices
    same = divisor is not None and reasoner.same(value, divisor)
    return same and reasoner.follows(value >= 1)


def _divisor(factor: Factor) -> Index | None:
    """The integer of which a factor is the reciprocal."""
    if not isinstance(factor, Call) or factor.name != "Reciprocal":
        return None
    inside: Sequence[Term] = factor.arguments[0]
    if len(inside) != 1 or inside[0].coefficient != 1 or len(inside[0].factors) != 1:
        return None
    bare = not (inside[0].variables or inside[0].conditions)
    (only,) = inside[0].factors
    return only.indices[0] if bare and isinstance(only, Read) and only.name == INTEGER else None
