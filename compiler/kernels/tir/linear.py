"""Proofs of inequalities by adding up others: what a simplex method would find, in simple cases.

A goal g <= 0 follows from conditions c <= 0 if g - m * c <= 0 holds within the intervals of all
variables, for multipliers m >= 0. Each step takes the conditions, and multipliers that remove a
variable, by which the bound falls most. A proof is exact; not to find one means nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.kernels.tir.integers import Term, Terms

MOST_STEPS = 12
"""The conditions that a proof may add."""

WIDTH = 4
"""The sums that are tried at each step, those with the least bounds."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of terms with factors, and a constant."""

    factors: dict[Term, int]
    constant: int

    def plus(self, other: "Linear", factor: int = 1) -> "Linear":
        """This and a multiple of another."""
        factors = dict(self.factors)
        for term, own in other.factors.items():
            factors[term] = factors.get(term, 0) + factor * own
        nonzero = {term: own for term, own in factors.items() if own}
        return Linear(nonzero, self.constant + factor * other.constant)

    def times(self, factor: int) -> "Linear":
        """A multiple."""
        factors = {term: factor * own for term, own in self.factors.items()} if factor else {}
        return Linear(factors, factor * self.constant)

    @property
    def greatest(self) -> int:
        """Its greatest value within the intervals of its terms."""
        return self.constant + sum(
            factor * (term.high if factor > 0 else term.low)
            for term, factor in self.factors.items()
        )


def follows(goals: Sequence[Linear], conditions: Sequence[Term], sums: "Sums") -> bool:
    """Whether all goals, sums that are at most 0, follow from conditions as far as can be seen."""
    known = [sums.at_most_zero(condition) for condition in conditions]
    bounds = [bound for each in known for bound in each]
    return all(_follows(goal, sums.with_definitions([goal, *bounds])) for goal in goals)


def _follows(goal: Linear, bounds: Sequence[Linear]) -> bool:
    """The greatest values never rise, but may stay: a quotient for its operand gains nothing yet."""
    tried = [(goal, 1)]
    for _ in range(MOST_STEPS):
        options = dict[tuple[object, ...], tuple[float, Linear, int]]()
        for own, scale in tried:
            limit = own.greatest / scale
            if limit <= 0:
                return own.greatest <= 0
            for bound in bounds:
                for other, factor in _sums(own, bound):
                    height = other.greatest / (scale * factor)
                    if height <= limit:
                        key = (height, *sorted(map(id, other.factors)))
                        options.setdefault(key, (height, other, scale * factor))
        best = sorted(options.values(), key=lambda option: option[0])[:WIDTH]
        tried = [(other, scale) for _, other, scale in best]
    return False


def _sums(goal: Linear, bound: Linear) -> Iterator[tuple[Linear, int]]:
    """Sums of a goal and a bound that lack one of the goal's terms, and how much larger they are."""
    for term, factor in bound.factors.items():
        own = goal.factors.get(term, 0)
        if own * factor > 0:
            yield goal.times(abs(factor)).plus(bound, -abs(own)), abs(factor)


class Sums:
    """The linear forms of a kernel's terms."""

    def __init__(self, terms: Terms):
        self._terms = terms
        self._forms = dict[Term, Linear]()

    def of(self, term: Term) -> Linear:
        """A term as a sum of axes, unknowns, quotients, and what is not linear."""
        if term not in self._forms:
            self._forms[term] = self._form(term)
        return self._forms[term]

    def _form(self, term: Term) -> Linear:
        if term.kind == "number":
            return Linear({}, term.low)
        if term.kind in ("+", "-"):
            first, second = map(self.of, term.operands)
            return first.plus(second, 1 if term.kind == "+" else -1)
        if term.kind == "*":
            first, second = map(self.of, term.operands)
            for one, other in ((first, second), (second, first)):
                if not one.factors:
                    return other.times(one.constant)
        if term.kind == "%" and term.operands[1].kind == "number":
            quotient = self._terms.apply("//", *term.operands)
            whole = self.of(quotient).times(term.operands[1].low)
            return self.of(term.operands[0]).plus(whole, -1)
        return Linear({term: 1}, 0)

    def at_most_zero(self, condition: Term) -> list[Linear]:
        """The sums that are at most 0 where a condition holds, as far as it is linear."""
        negated = condition.kind == "not"
        inner = condition.operands[0] if negated else condition
        if inner.kind == "and" and not negated:
            return [each for term in inner.operands for each in self.at_most_zero(term)]
        if not negated and inner.kind in ("<", "<=") and inner.operands[1].kind == "min":
            smaller, larger = inner.operands[0], inner.operands[1].operands
            apart = [self._terms.apply(inner.kind, smaller, each) for each in larger]
            return [each for term in apart for each in self.at_most_zero(term)]
        if inner.kind not in ("<", "<=", "=="):
            return []
        first, second = map(self.of, inner.operands)
        less, more = first.plus(second, -1), second.plus(first, -1)
        if inner.kind == "==":
            return [] if negated else [less, more]
        strict = (inner.kind == "<") != negated
        return [(more if negated else less).plus(Linear({}, int(strict)))]

    def with_definitions(self, sums: Sequence[Linear]) -> list[Linear]:
        """Sums that are at most 0, but the first, with those that define what is in them."""
        bounds, seen, queue = list(sums[1:]), set[Term](), [t for s in sums for t in s.factors]
        while queue:
            term = queue.pop()
            if term not in seen:
                seen.add(term)
                definitions = self._definitions(term)
                bounds += definitions
                queue += [t for each in definitions for t in each.factors]
        return bounds

    def _definitions(self, term: Term) -> list[Linear]:
        """What is at most 0 of a quotient, a minimum or a maximum and its operands."""
        own = Linear({term: 1}, 0)
        if term.kind == "//" and term.operands[1].kind == "number":
            divisor = term.operands[1].low
            over = own.times(divisor).plus(self.of(term.operands[0]), -1)
            return [over, over.times(-1).plus(Linear({}, 1 - divisor))]
        if term.kind in ("min", "max"):
            sign = 1 if term.kind == "min" else -1
            return [own.plus(self.of(operand), -1).times(sign) for operand in term.operands]
        return []
