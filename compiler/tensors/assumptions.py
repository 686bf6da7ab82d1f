"""Assumptions about sizes, by which comparisons of extents are decided where bounds do not.

A comparison that holds for some sizes only is decided as for the example sizes (`Symbol.hint`), and
the condition is remembered: what was computed holds for all sizes that meet all conditions.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd, inf, prod
from typing import Self

from compiler.tensors.extents import (
    DECIDING,
    NO_RANGES,
    Atom,
    Expression,
    Extent,
    Quotient,
    Relation,
    Undecided,
    at_hints,
    atom_extent,
    bounds,
    extent_of,
    single_atom,
    symbols_of,
    terms_of,
    value_at,
)
from compiler.tensors.inequalities import least
from compiler.tensors.symbols import Range, Symbol


@dataclass(frozen=True, slots=True)
class SizeCondition:
    """A condition on sizes: that an extent has a relation to 0."""

    extent: Extent
    relation: Relation

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for these sizes, by symbol."""
        return _compare(value_at(self.extent, sizes), self.relation)

    def __str__(self) -> str:
        return f"{self.extent} {self.relation} 0"


class Assumptions:
    """The conditions under which what was computed on extents holds, in the order they arose.

    Of several upper bounds of one sum only the least is kept.
    """

    def __init__(self) -> None:
        self._conditions: dict[tuple[Extent, Relation], SizeCondition] = {}
        self._ranges: dict[Symbol, Range] = {}
        self._decided: dict[tuple[Extent, Relation], bool] = {}

    @classmethod
    def of(cls, conditions: Iterable[SizeCondition]) -> Self:
        """The assumptions of another computation, which decide nothing further."""
        assumptions = cls()
        for condition in conditions:
            assumptions._conditions[condition.extent, condition.relation] = condition
        return assumptions

    def __iter__(self) -> Iterator[SizeCondition]:
        return iter(self._conditions.values())

    def on_measured(self) -> str:
        """A condition on a size that is measured too late for it to be held; else nothing."""
        symbols = ((c, s) for c in self for s in symbols_of(c.extent))
        return next((str(condition) for condition, symbol in symbols if symbol.measured), "")

    def in_place_of_symbols(self) -> dict[Symbol, Extent]:
        """The extents in place of symbols that build conditions in; empty if none can be.

        Bounds are such conditions, as kernels are chosen by them, too.
        """
        if values := self.pinned() or self.multiples():
            return values
        symbols = self.merged() or self.narrowed()
        return {symbol: extent_of(other) for symbol, other in symbols.items()}

    def pinned(self) -> dict[Symbol, Extent]:
        """The symbols of which a condition admits few sizes only, with their hints.

        Such a condition is that a polynomial of one symbol, or a quotient of it, is 0.
        """
        roots = [condition.extent for condition in self if condition.relation == "=="]
        atoms = [{atom for monomial, _ in terms_of(root) for atom in monomial} for root in roots]
        lone_extents = [atom_extent(atom) for group in atoms if len(group) == 1 for atom in group]
        symbols = {symbol for extent in lone_extents for symbol in symbols_of(extent)}
        return {symbol: symbol.hint for symbol in symbols}

    def multiples(self) -> dict[Symbol, Extent]:
        """The symbols that are assumed to be multiples of a number, as such multiples of others.

        So no tensor has fewer elements by `2 * (n // 2)` than by `n`.
        """
        divisors: dict[Symbol, int] = {}
        for condition in self:
            if condition.relation == "==":
                divisors |= _divisors(condition.extent)
        return {symbol: _multiple(symbol, divisor) for symbol, divisor in divisors.items()}

    def narrowed(self) -> dict[Symbol, Symbol]:
        """The symbols of which bounds are assumed, with symbols of these bounds in their place."""
        narrower: dict[Symbol, Symbol] = {}
        for symbol, (low, high) in self._ranges.items():
            upper = None if high == inf else int(high)
            if (int(low), upper) != (symbol.low, symbol.high):
                narrower[symbol] = replace(symbol, low=int(low), high=upper)
        return narrower

    def merged(self) -> dict[Symbol, Symbol]:
        """Symbols that are assumed to be equal to others, with those in their place."""
        equal: dict[Symbol, Symbol] = {}
        for condition in self:
            match sorted(terms_of(condition.extent), key=str):
                case [((Symbol() as first,), 1 | -1 as sign), ((Symbol() as second,), factor)] if (
                    condition.relation == "==" and factor == -sign
                ):
                    root, alias = sorted((equal.get(s, s) for s in (first, second)), key=str)
                    if root != alias:
                        equal = {s: root if t == alias else t for s, t in equal.items()}
                        equal[alias] = root
                case _:
                    pass
        return equal

    def hold(self, sizes: Mapping[str, int]) -> bool:
        """Whether all of them hold for these sizes, by symbol."""
        return all(condition.holds(sizes) for condition in self)

    def decide(self, extent: Expression, relation: Relation) -> bool:
        """Whether an extent compares so with 0, if need be for the example sizes."""
        key = extent, relation
        if key not in self._decided:
            self._decided[key] = self._answer(_reduced(extent), relation)
        return self._decided[key]

    def _answer(self, extent: Extent, relation: Relation) -> bool:
        if (proved := _proved(extent, relation, self._ranges)) is not None:
            return proved
        several = self._ranges | _some_measured(extent, 2 if relation == "==" else 1)
        if (proved := _proved(extent, relation, several)) is not None:
            return proved
        holds = _compare(at_hints(extent), relation)
        match relation:
            case "==":
                self._add(extent, "==" if holds else "!=")
            case "<":  # extents are whole numbers
                self._add(extent + 1 if holds else -extent, "<=")
            case _:
                self._add(extent if holds else 1 - extent, "<=")
        return holds

    def _add(self, extent: Extent, relation: Relation) -> None:
        """Remember a condition in its strongest form."""
        if relation == "<=":
            extent = _tightened(extent)
        terms = dict(terms_of(extent))
        constant = terms.pop((), 0)
        key = extent - constant, relation
        if relation != "<=":
            key = extent, relation
        elif key in self._conditions:
            constant = max(constant, (self._conditions[key].extent - key[0]) + 0)
            extent = key[0] + constant
        self._conditions[key] = SizeCondition(extent, relation)
        self._narrow(extent, relation)

    def _narrow(self, extent: Extent, relation: Relation) -> None:
        """The range of a symbol from a bound of it, or of a quotient of it."""
        if relation == "!=":
            return
        terms = dict(terms_of(extent))
        constant = terms.pop((), 0)
        match [*terms.items()]:
            case [((Symbol() as symbol,), 1 | -1 as sign)]:
                low, high = self._ranges.get(symbol) or bounds(atom_extent(symbol))
                if sign == -1 or relation == "==":
                    low = max(low, -constant * sign)
                if sign == 1 or relation == "==":
                    high = min(high, -constant * sign)
                self._ranges[symbol] = low, high
            case [((Quotient(denominator=int(divisor)) as quotient,), 1 | -1 as sign)]:
                if sign == -1 or relation == "==":  # p // d >= c: p >= c * d
                    least_one = -constant * sign * divisor - quotient.numerator
                    self._narrow(_tightened(least_one), "<=")
                if sign == 1 or relation == "==":  # p // d <= c: p <= (c + 1) * d - 1
                    upper = (1 - constant * sign) * divisor - 1
                    self._narrow(_tightened(quotient.numerator - upper), "<=")
            case _:
                pass


@contextmanager
def assuming() -> Generator[Assumptions]:
    """Decide comparisons by the example sizes within this block, and collect the conditions."""
    assumptions = Assumptions()
    token = DECIDING.set(assumptions)
    try:
        yield assumptions
    finally:
        DECIDING.reset(token)


def _some_measured(extent: Extent, low: int) -> dict[Symbol, Range]:
    """Ranges of the symbols that a run measures, from a size on.

    Kernels for some elements do nothing for none, and axes of one element broadcast if they are
    numbers alone. That an operator gives the same for 0 and 1 the frontend checks.
    """
    measured = (symbol for symbol in symbols_of(extent) if symbol.measured)
    return {symbol: (min(low, symbol.hint), symbol.hint) for symbol in measured}


class _Nothing:
    """No conditions: what bounds do not decide raises Undecided."""

    def decide(self, extent: Expression, relation: Relation) -> bool:
        """Whether an extent compares so with 0 for all sizes; raises Undecided if for some only."""
        proved = _proved(_reduced(extent), relation, NO_RANGES)
        if proved is None:
            raise Undecided(f"{extent} {relation} 0 holds for some sizes only")
        return proved


@contextmanager
def assuming_nothing() -> Generator[None]:
    """Raise Undecided within this block, whose results must hold under other conditions, too."""
    token = DECIDING.set(_Nothing())
    try:
        yield
    finally:
        DECIDING.reset(token)


def _proved(extent: Extent, relation: Relation, ranges: Mapping[Symbol, Range]) -> bool | None:
    """Whether an extent compares so with 0, with symbols in ranges; None if for some sizes only."""
    low, high = bounds(extent, ranges)
    if low <= 0 <= high:
        low = max(low, least(extent))
        high = min(high, -least(-extent))
    always = {"==": low == high == 0, "<": high < 0, "<=": high <= 0}
    never = {"==": low > 0 or high < 0, "<": low >= 0, "<=": low > 0}
    return always[relation] if always[relation] or never[relation] else None


def _divisors(extent: Extent) -> dict[Symbol, int]:
    """The divisors of symbols by which an extent such as `x * y - 6 * (x // 2) * (y // 3)` is 0.

    It is 0 if each symbol is a multiple of its divisor, as quotients multiplied are at most that.
    """
    terms = dict(terms_of(extent))
    if len(terms) != 2:
        return {}
    plain, divided = sorted(terms, key=lambda monomial: abs(terms[monomial]))
    divisors: dict[Symbol, int] = {}
    for atom in (Counter(divided) - Counter(plain)).elements():
        match atom:
            case Quotient(denominator=int(divisor)) if isinstance(
                symbol := single_atom(atom.numerator), Symbol
            ):
                divisors[symbol] = divisor
            case _:
                return {}
    every = Counter(plain) - Counter(divided) == Counter([*divisors])
    return divisors if every and terms[divided] == -terms[plain] * prod(divisors.values()) else {}


def _multiple(symbol: Symbol, divisor: int) -> Extent:
    """A multiple of a symbol whose bounds and hint are those of another one, divided."""
    high = None if symbol.high is None else symbol.high // divisor
    return divisor * extent_of(
        replace(
            symbol,
            name=f"{symbol.name}/{divisor}",
            low=-(-symbol.low // divisor),
            high=high,
            hint=symbol.hint // divisor,
        )
    )


def _reduced(extent: Expression) -> Extent:
    """An extent of the same sign: without a positive factor of all its terms."""
    shared = reduce(lambda a, b: a & b, (Counter[Atom](monomial) for monomial, _ in extent.terms))
    positive = Counter({atom: n for atom, n in shared.items() if bounds(atom_extent(atom))[0] > 0})
    divisor = gcd(*(factor for _, factor in extent.terms))
    total: Extent = 0
    for monomial, factor in extent.terms:
        term: Extent = factor // divisor
        for atom in (Counter[Atom](monomial) - positive).elements():
            term = term * atom_extent(atom)
        total = total + term
    return total


def _tightened(extent: Extent) -> Extent:
    """The left side of `extent <= 0` over whole numbers, in the lowest terms."""
    if not isinstance(extent, Expression):
        return extent
    divisor = gcd(*(factor for monomial, factor in extent.terms if monomial))
    terms = {monomial: -(-factor // divisor) for monomial, factor in extent.terms}
    return Expression(frozenset((m, f) for m, f in terms.items() if f))


def _compare(number: int, relation: Relation) -> bool:
    match relation:
        case "==":
            return number == 0
        case "!=":
            return number != 0
        case "<":
            return number < 0
        case "<=":
            return number <= 0
