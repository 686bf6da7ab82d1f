"""Variables that conditions leave one value: [v = e] f(v) summed over v is f(e)."""

from collections.abc import Iterator
from typing import Any

import z3

from tests.rewrite.rules.divisions import Formula, Index
from tests.rewrite.rules.reasoning import Reasoner
from tests.rewrite.rules.renaming import solved
from tests.rewrite.rules.sums import Sum, Term, substituted


def pinned(reasoner: Reasoner, value: Sum) -> Sum:
    """A sum without the variables that can have one value only."""
    return tuple(_pinned(reasoner, term) for term in value)


def _pinned(reasoner: Reasoner, term: Term) -> Term:
    for variable in term.variables:
        found = _only_value(reasoner, term, variable)
        if found is not None:
            others = tuple(v for v in term.variables if v is not variable)
            inner = Term(term.coefficient, others, term.conditions, term.factors)
            (inner,) = substituted((inner,), [(variable, found)])
            return _pinned(reasoner, inner)
    return term


def _only_value(reasoner: Reasoner, term: Term, variable: Any) -> Index | None:
    """The value that a term's conditions leave a variable; None if there may be several."""
    with reasoner.assuming(term.conditions):
        for value in _candidates(term, variable):
            if reasoner.follows(variable == value):
                return value
    return None


def _candidates(term: Term, variable: Any) -> Iterator[Any]:
    """The values of a variable for which two sides of a condition are equal."""
    for left, right in map(_sides, term.conditions):
        found = solved(z3.IntVal(0), left - right, [variable])
        if found is not None:
            yield found[1]


def _sides(condition: Formula) -> tuple[Any, Any]:
    while z3.is_not(condition):
        condition = condition.arg(0)
    sides = condition.children()
    integers = len(sides) == 2 and all(z3.is_int(side) for side in sides)
    return (sides[0], sides[1]) if integers else (z3.IntVal(0), z3.IntVal(0))
