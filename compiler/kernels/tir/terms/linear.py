"""Proofs of inequalities by adding up others: what a simplex method would find, in simple cases.

A goal g <= 0 follows from conditions c <= 0 if g - m * c <= 0 holds within the intervals of all
variables, for multipliers m >= 0. Conditions narrow these intervals first. Each step then takes the
conditions, and multipliers that remove a variable, by which the bound falls most. A proof is exact;
not to find one means nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.kernels.tir.terms.integers import Integer, IntegerRange, KernelTerms

MOST_SUMS = 12
"""The conditions that a proof may add."""

NARROWINGS = 3
"""How often all conditions narrow the intervals of their terms."""

WIDTH = 4
"""The sums that are tried at each step, those with the least bounds."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of terms with factors, and a constant."""

    factors: dict[Integer, int]
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

    def greatest(self, within: Mapping[Integer, IntegerRange]) -> int:
        """Its greatest value where each term is in an interval."""
        ends = (factor * within[term][factor > 0] for term, factor in self.factors.items())
        return self.constant + sum(ends)


def follows(goals: Sequence[Linear], conditions: Sequence[Integer], sums: "Sums") -> bool:
    """Whether all goals, sums that are at most 0, follow from conditions as far as can be seen."""
    known = [bound for condition in conditions for bound in sums.at_most_zero(condition)]
    bounds, terms = sums.with_definitions(known, goals)
    within = _narrowed({term: (term.low, term.high) for term in terms}, bounds)
    return within is None or all(_follows(goal, bounds, within) for goal in goals)


def interval(term: Integer, conditions: Sequence[Integer], sums: "Sums") -> IntegerRange | None:
    """An interval of a term that conditions narrow; None if they contradict each other."""
    own = sums.of(term)
    known = [bound for condition in conditions for bound in sums.at_most_zero(condition)]
    bounds, terms = sums.with_definitions(known, [own])
    within = _narrowed({variable: (variable.low, variable.high) for variable in terms}, bounds)
    if within is None:
        return None
    least = -own.times(-1).greatest(within)
    greatest = own.greatest(within)
    return max(term.low, least), min(term.high, greatest)


def _narrowed(
    within: dict[Integer, IntegerRange], bounds: Sequence[Linear]
) -> Mapping[Integer, IntegerRange] | None:
    """The intervals of terms for which all bounds, at most 0, can hold; None if there are none."""
    for _ in range(NARROWINGS):
        for bound in bounds:
            least = bound.plus(bound, -2).greatest(within)  # the negative of its least value
            for term, factor in bound.factors.items():
                low, high = within[term]
                if factor > 0:
                    high = min(high, low + least // factor)
                else:
                    low = max(low, high - least // -factor)
                if low > high:
                    return None
                within[term] = (low, high)
    return within


def _follows(
    goal: Linear, bounds: Sequence[Linear], within: Mapping[Integer, IntegerRange]
) -> bool:
    """The greatest value never rises, but may stay: a quotient for its operand gains nothing."""
    tried = [(goal, 1)]
    for _ in range(MOST_SUMS):
        options = dict[tuple[object, ...], tuple[float, Linear, int]]()
        for own, scale in tried:
            greatest = own.greatest(within)
            if greatest <= 0:
                return True
            for other, factor in (total for bound in bounds for total in _sums(own, bound)):
                height = other.greatest(within) / (scale * factor)
                if height <= greatest / scale:
                    key = (height, *sorted(map(id, other.factors)))
                    options.setdefault(key, (height, other, scale * factor))
        best = sorted(options.values(), key=lambda option: option[0])[:WIDTH]
        tried = [(other, scale) for _, other, scale in best]
    return False


def _sums(goal: Linear, bound: Linear) -> Iterator[tuple[Linear, int]]:
    """Sums of a goal and a bound without one of the goal's terms, and how much larger they are."""
    for term, factor in bound.factors.items():
        own = goal.factors.get(term, 0)
        if own * factor > 0:
            yield goal.times(abs(factor)).plus(bound, -abs(own)), abs(factor)


class Sums:
    """The linear forms of a kernel's terms."""

    def __init__(self, terms: KernelTerms):
        self._terms = terms
        self._forms = dict[Integer, Linear]()

    def of(self, term: Integer) -> Linear:
        """A term as a sum of axes, unknowns, quotients, and what is not linear."""
        if term not in self._forms:
            self._forms[term] = self._form(term)
        return self._forms[term]

    def _form(self, term: Integer) -> Linear:
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

    def at_most_zero(self, condition: Integer) -> list[Linear]:
        """The sums that are at most 0 where a condition holds, as far as it is linear."""
        negated = condition.kind == "not"
        inner = condition.operands[0] if negated else condition
        if inner.kind == "and" and not negated:
            return [bound for term in inner.operands for bound in self.at_most_zero(term)]
        if not negated and (apart := self._followed(inner)):
            return [bound for term in apart for bound in self.at_most_zero(term)]
        if inner.kind not in ("<", "<=", "=="):
            return []
        first, second = map(self.of, inner.operands)
        less = first.plus(second, -1)
        more = second.plus(first, -1)
        if inner.kind == "==":
            return [] if negated else [less, more]
        strict = (inner.kind == "<") != negated
        return [(more if negated else less).plus(Linear({}, int(strict)))]

    def implied(self, condition: Integer) -> list[Integer]:
        """A condition, and what it says of the operands of a minimum, maximum or quotient."""
        return [condition, *(n for own in self._followed(condition) for n in self.implied(own))]

    def _followed(self, condition: Integer) -> list[Integer]:
        """The conditions that follow from one on a minimum, maximum or quotient, without it."""
        kind, apply = condition.kind, self._terms.apply
        if kind not in ("<", "<="):
            return []
        less, more = condition.operands
        if more.kind == "min":
            return [apply(kind, less, other) for other in more.operands]
        if more.kind == "max":
            one, other = more.operands
            if one.high < less.low:
                return [apply(kind, less, other)]
            return [apply(kind, less, one)] if other.high < less.low else []
        if more.kind == "-" and more.operands[0].kind in ("min", "max", "//", "%"):
            return [apply(kind, apply("+", less, more.operands[1]), more.operands[0])]
        if more.kind not in ("//", "%") or more.operands[1].kind != "number":
            return []
        dividend, divisor = more.operands
        if more.kind == "%":
            whole = apply("*", apply("//", dividend, divisor), divisor)
            return [apply(kind, apply("+", whole, less), dividend)]
        whole = apply("*", less, divisor)
        return [apply("<=", apply("+", whole, divisor) if kind == "<" else whole, dividend)]

    def with_definitions(
        self, bounds: Sequence[Linear], goals: Sequence[Linear]
    ) -> tuple[list[Linear], set[Integer]]:
        """Sums that are at most 0 with those that define what is in them, and all their terms."""
        every = list(bounds)
        seen = set[Integer]()
        queue = [term for linear in (*bounds, *goals) for term in linear.factors]
        while queue:
            term = queue.pop()
            if term not in seen:
                seen.add(term)
                definitions = self._definitions(term)
                every += definitions
                queue += [t for linear in definitions for t in linear.factors]
        return every, seen

    def _definitions(self, term: Integer) -> list[Linear]:
        """Sums that are at most 0 of a quotient, a minimum or a maximum and its operands."""
        own = Linear({term: 1}, 0)
        if term.kind == "//" and term.operands[1].kind == "number":
            divisor = term.operands[1].low
            over = own.times(divisor).plus(self.of(term.operands[0]), -1)
            return [over, over.times(-1).plus(Linear({}, 1 - divisor))]
        if term.kind in ("min", "max"):
            sign = 1 if term.kind == "min" else -1
            return [own.plus(self.of(operand), -1).times(sign) for operand in term.operands]
        return []
