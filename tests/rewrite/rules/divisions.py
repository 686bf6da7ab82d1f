"""Division of integers in proofs: valid formulas about the quotients inside formulas."""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import z3

Formula = Any
Index = Any
"""An integer of a proof: a z3 term or an int."""

INTEGER = z3.IntSort()
quotient = z3.Function("quotient", INTEGER, INTEGER, INTEGER)
remainder = z3.Function("remainder", INTEGER, INTEGER, INTEGER)
row_major = z3.Function("row_major", INTEGER, INTEGER, INTEGER, INTEGER)
"""The number of the element at a row and a column of so many columns."""
FUNCTIONS = {function.get_id() for function in (quotient, remainder, row_major)}
"""The declarations of these functions, by identity."""


def divided(number: Index, divisor: Index) -> Index:
    """The quotient, rounded down."""
    if isinstance(number, int) and isinstance(divisor, int):
        return number // divisor
    return number if isinstance(divisor, int) and divisor == 1 else quotient(number, divisor)


def is_app_of(term: Any, function: Any) -> bool:
    """Whether a term is an application of a function."""
    return z3.is_app(term) and term.decl().eq(function)


def subterms(terms: Sequence[Any]) -> Iterator[Any]:
    """Every term inside some terms, and themselves, once."""
    seen: set[int] = set()
    pending = list(terms)
    while pending:
        term = pending.pop()
        if term.get_id() not in seen:
            seen.add(term.get_id())
            yield term
            pending += term.children()


class Definitions:
    """The facts about quotients, remainders and row-major numbers, each made once."""

    def __init__(self) -> None:
        self.multiples: list[Index] = []
        """Numbers by which quotients may differ."""
        self._applications: dict[int, tuple[Formula, dict[int, Any]]] = {}
        self._facts: dict[tuple[int, ...], tuple[Any, list[Formula]]] = {}

    def facts(self, formulas: Sequence[Formula]) -> list[Formula]:
        """Valid formulas about the applications in some formulas."""
        found: dict[int, Any] = {}
        for formula in formulas:
            found.update(self._in(formula))
        facts: list[Formula] = []
        for term in found.values():
            facts += self._about((term,))
        quotients = [t for t in found.values() if t.decl().eq(quotient)]
        for pair in permutations(quotients, 2):
            facts += self._about(pair)
        return facts

    def _in(self, formula: Formula) -> dict[int, Any]:
        """By identity the applications in a formula, and those that facts about them need."""
        identity = formula.get_id()
        if identity not in self._applications:
            terms = [t for t in subterms([formula]) if _is_division(t)]
            partners = [_partner(t) for t in terms]
            found = [*terms, *(p for p in partners if p is not None)]
            self._applications[identity] = (formula, {t.get_id(): t for t in found})
        return self._applications[identity][1]

    def _about(self, terms: tuple[Any, ...]) -> list[Formula]:
        key = tuple(term.get_id() for term in terms)
        if key not in self._facts:
            facts = _definition(*terms) if len(terms) == 1 else self._shifted(*terms)
            self._facts[key] = (terms, facts)
        return self._facts[key][1]

    def _shifted(self, left: Any, right: Any) -> list[Formula]:
        """Numbers that differ by so many divisors have quotients that differ by as much."""
        a, divisor = left.children()
        b, other = right.children()
        same = z3.And(divisor == other, divisor >= 1)
        return [
            z3.Implies(z3.And(same, a == b + k * divisor), left == right + k)
            for k in self.multiples
        ]


def _is_division(term: Any) -> bool:
    return term.num_args() > 1 and term.decl().get_id() in FUNCTIONS


def _partner(term: Any) -> Any | None:
    """The remainder of a quotient, or the quotient of a remainder."""
    for function, other in ((quotient, remainder), (remainder, quotient)):
        if term.decl().eq(function):
            return other(*term.children())
    return None


def _definition(term: Any) -> list[Formula]:
    if term.decl().eq(row_major):
        row, column, columns = term.children()
        return [term == row * columns + column]
    if term.decl().eq(remainder):
        return []
    number, divisor = term.children()
    rest = remainder(number, divisor)
    facts = [
        z3.Implies(divisor >= 1, z3.And(rest >= 0, rest < divisor)),
        number == term * divisor + rest,
        z3.Implies(z3.And(number >= 0, divisor >= 1), term >= 0),
        z3.Implies(divisor == 1, rest == 0),
    ]
    if is_app_of(number, row_major) and number.arg(2).eq(divisor):
        row, column, _ = number.children()
        inside = z3.And(column >= 0, column < divisor)
        facts.append(z3.Implies(inside, z3.And(term == row, rest == column)))
    return facts
