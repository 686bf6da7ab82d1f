"""Extents: how many elements a tensor has along an axis, as numbers or expressions over symbols.

An extent is an `int`, or an `Expression` over the `Symbol`s of a model's inputs (a batch, a
length). Expressions take part in arithmetic as numbers do, so that code that infers shapes need not
know which of the two it has. Their normal form is a polynomial with integer coefficients, whose
atoms are symbols, quotients that are not exact, and maxima: equal polynomials have equal hashes.

A comparison may hold for some sizes only. It raises Undecided then, and so does `int()` of an
expression, unless assumptions are in force (`tensors.assumptions`), which decide it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import reduce
from itertools import product
from math import gcd, inf
from operator import index
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, SupportsIndex, TypeGuard

from compiler.tensors.symbols import Range, Symbol, floor, times

Relation = Literal["==", "!=", "<", "<="]
"""How an extent compares with 0."""

NO_RANGES: Mapping[Symbol, Range] = {}
"""The bounds of symbols are their own."""


class NotForAllSizes(Exception):
    """A compilation for all sizes is not possible, or not valid for these: compile for numbers."""


class Undecided(NotForAllSizes):
    """A comparison that holds for some sizes only, where nothing may be assumed."""


MOST_ATOMS = 256
"""The most atoms in an extent, those inside of atoms counted. Shapes of networks have a few.

Powers of sums have many terms; a chain of quotients whose operands share one doubles with each.
"""


class _Compound:
    """An atom made of extents. It is equal to one of the same parts, as `==` of extents assumes.

    `weight` is the number of its atoms, itself included.
    """

    __slots__ = ("operands", "parts", "text", "weight")

    operands: "tuple[Extent, ...]"
    parts: "tuple[object, ...]"
    text: str
    weight: int

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Compound) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)


class Quotient(_Compound):
    """`numerator // denominator`, rounded towards minus infinity; the denominator is positive."""

    __slots__ = ("denominator", "numerator")

    def __init__(self, numerator: "Extent", denominator: "Extent") -> None:
        self.numerator = numerator
        self.denominator = denominator
        self.text = f"{_in_brackets(numerator)}//{_in_brackets(denominator)}"
        self.parts = ("//", _key(terms_of(numerator)), _key(terms_of(denominator)))
        self.operands = numerator, denominator
        self.weight = 1 + _weight(self.operands)


class Maximum(_Compound):
    """The largest of several extents, none of which is known to be at most another."""

    __slots__ = ("extents",)

    def __init__(self, extents: "Iterable[Extent]") -> None:
        self.extents = tuple(sorted(extents, key=str))
        self.text = f"max({', '.join(map(str, self.extents))})"
        self.parts = ("max", *(_key(terms_of(extent)) for extent in self.extents))
        self.operands = self.extents
        self.weight = 1 + _weight(self.operands)


Atom = Symbol | Quotient | Maximum
Monomial = tuple[Atom, ...]
"""Atoms multiplied, sorted by their texts; () is 1."""


if TYPE_CHECKING:
    # Code that is right for numbers is right for expressions: to the type checker they are
    # numbers, and functions on shapes need no second annotation.
    _Number = int
else:
    _Number = object


class Expression(_Number):
    """A polynomial over atoms with integer coefficients that is not a number."""

    __slots__ = ("_hash", "terms")

    def __new__(cls, terms: frozenset[tuple[Monomial, int]]) -> Self:
        return super().__new__(cls)

    def __init__(self, terms: frozenset[tuple[Monomial, int]]) -> None:
        self.terms = terms
        self._hash = hash(_key(terms))

    def __reduce__(self) -> tuple[type[Self], tuple[frozenset[tuple[Monomial, int]]]]:
        return type(self), (self.terms,)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        ordered = sorted(self.terms, key=_order, reverse=True)
        text = " + ".join(_term_text(monomial, factor) for monomial, factor in ordered)
        return text.replace("+ -", "- ")

    __repr__ = __str__

    # the other operand decides if it is not a number: a list is repeated, an index is scaled

    def __add__(self, other: Any) -> "Extent":
        return _sum((self, other)) if _is_number(other) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> "Extent":
        return _multiplied(self, -1)

    def __sub__(self, other: Any) -> "Extent":
        return _sum((self, _multiplied(other, -1))) if _is_number(other) else NotImplemented

    def __rsub__(self, other: int) -> "Extent":
        return _sum((other, -self))

    def __mul__(self, other: Any) -> "Extent":
        return _multiplied(self, other) if _is_number(other) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: "Extent") -> "Extent":
        return _quotient(self, other)

    def __rfloordiv__(self, other: int) -> "Extent":
        return _quotient(other, self)

    def __mod__(self, other: "Extent") -> "Extent":
        return self - _multiplied(self // other, other)

    def __rmod__(self, other: int) -> "Extent":
        return other - _multiplied(other // self, self)

    def __truediv__(self, other: object) -> float:
        raise Undecided(f"{self} / {other} is computed as a float")

    __rtruediv__ = __truediv__

    def __float__(self) -> float:
        raise Undecided(f"{self} is rounded to a float")

    def __format__(self, spec: str) -> str:
        """Its text; in brackets where a number is asked for, as among the sizes of a type."""
        return f"({self})" if spec == "d" else str(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Expression):
            return NotImplemented
        if isinstance(other, Expression) and self.terms == other.terms:
            return True
        return _decide(self - other, "==")

    def __lt__(self, other: "Extent") -> bool:
        return _decide(self - other, "<")

    def __le__(self, other: "Extent") -> bool:
        return _decide(self - other, "<=")

    def __gt__(self, other: "Extent") -> bool:
        return _decide(other - self, "<")

    def __ge__(self, other: "Extent") -> bool:
        return _decide(other - self, "<=")

    def __bool__(self) -> bool:
        return not _decide(self, "==")

    def __index__(self) -> int:
        """The number for the example sizes, which other sizes are assumed to give, too."""
        number = at_hints(self)
        _decide(self - number, "==")
        return number

    __int__ = __index__


Extent = int | Expression
"""The size of an axis."""

Shape = tuple[Extent, ...]
"""The extents of a tensor, the outermost axis first."""


class Decides(Protocol):
    """A way to decide comparisons that hold for some sizes only."""

    def decide(self, extent: Expression, relation: Relation) -> bool:
        """Whether an extent compares so with 0."""
        ...


DECIDING: ContextVar[Decides | None] = ContextVar("assumptions about sizes", default=None)
"""The assumptions in force."""


def extent_of(symbol: Symbol) -> Extent:
    """A symbol as an extent: a number if its bounds admit one only."""
    return symbol.low if symbol.low == symbol.high else _expression({(symbol,): 1})


def symbols_of(extent: Extent) -> set[Symbol]:
    """The symbols that an extent depends on."""
    symbols = set[Symbol]()
    for atom in (atom for monomial, _ in terms_of(extent) for atom in monomial):
        if isinstance(atom, Symbol):
            symbols.add(atom)
        else:
            symbols.update(*map(symbols_of, atom.operands))
    return symbols


def magnitudes(extent: Extent) -> Iterator[Extent]:
    """The sums of the terms of an extent, and of those in it, without their signs."""
    yield _expression({monomial: abs(factor) for monomial, factor in terms_of(extent)})
    for atom in (atom for monomial, _ in terms_of(extent) for atom in monomial):
        for operand in () if isinstance(atom, Symbol) else atom.operands:
            yield from magnitudes(operand)


def value_at(extent: Extent, sizes: Mapping[str, int]) -> int:
    """The number that an extent is for these sizes, by symbol; raises KeyError for one missing."""
    return _value(extent, lambda symbol: sizes[symbol.name])


def at_hints(extent: Extent) -> int:
    """The number that an extent is for the example sizes."""
    return _value(extent, lambda symbol: symbol.hint)


def bounds(extent: Extent, ranges: Mapping[Symbol, Range] = NO_RANGES) -> Range:
    """A range that has all values which the symbols' bounds, or narrower ranges, admit.

    It is computed by intervals of the atoms, so it may be wider than the values: n - n // 2 is
    from -3 to 9 with n in 1..9.
    """
    low: float = 0
    high: float = 0
    for monomial, factor in terms_of(extent):
        atoms = [_atom_bounds(atom, ranges) for atom in monomial]
        smallest, largest = reduce(times, atoms, (factor, factor))
        low += smallest
        high += largest
    return low, high


def atom_extent(atom: Atom) -> Extent:
    """An atom as an expression, whatever its bounds."""
    return _expression({(atom,): 1})


def _is_number(value: object) -> "TypeGuard[Extent]":
    return isinstance(value, int | float | Expression | SupportsIndex)


def terms_of(extent: Extent) -> Iterable[tuple[Monomial, int]]:
    """The monomials of an extent, each with its factor; raises Undecided for a float."""
    if isinstance(extent, Expression):
        return extent.terms
    if isinstance(extent, float):  # extents are not rounded to floats
        raise Undecided(f"a size is computed with {extent}, which is not whole")
    return (((), index(extent)),)


def _key(terms: Iterable[tuple[Monomial, int]]) -> frozenset[tuple[Monomial, int]]:
    """Terms with factors of different hashes: Python's of -1 and -2 are equal.

    Extents of one hash are compared by `==`, which assumes something.
    """
    return frozenset([(monomial, 2 * factor + 1) for monomial, factor in terms])


def _weight(extents: Iterable[Extent]) -> int:
    """The atoms in extents, with those inside of atoms."""
    terms = (term for extent in extents for term in terms_of(extent))
    atoms = (atom for monomial, _ in terms for atom in monomial)
    return sum(1 if isinstance(atom, Symbol) else atom.weight for atom in atoms)


def _expression(terms: Mapping[Monomial, int]) -> Extent:
    present = {monomial: factor for monomial, factor in terms.items() if factor}
    if not present.keys() - {()}:
        return present.get((), 0)
    expression = Expression(frozenset(present.items()))
    if _weight((expression,)) > MOST_ATOMS:
        raise Undecided(f"a size is computed from others in more than {MOST_ATOMS} steps")
    return expression


def _sum(extents: Iterable[Extent]) -> Extent:
    terms: dict[Monomial, int] = {}
    for extent in extents:
        for monomial, factor in terms_of(extent):
            terms[monomial] = terms.get(monomial, 0) + factor
    return _expression(terms)


def _multiplied(first: Extent, second: Extent) -> Extent:
    terms: dict[Monomial, int] = {}
    for (left, factor), (right, multiplier) in product(terms_of(first), terms_of(second)):
        monomial = tuple(sorted((*left, *right), key=str)) if left and right else left or right
        terms[monomial] = terms.get(monomial, 0) + factor * multiplier
    return _expression(terms)


def _quotient(numerator: Extent, denominator: Extent) -> Extent:
    """`numerator // denominator`: what is divisible is divided, the remainder becomes an atom."""
    if not isinstance(denominator, Expression):
        if denominator < 0:
            return _quotient(_multiplied(numerator, -1), -denominator)
        quotient, remainder = _short_division(numerator, denominator)
    else:
        if denominator <= 0:
            raise ZeroDivisionError(f"{numerator} // ({denominator})")
        quotient, remainder = _long_division(numerator, denominator)
    less_one = _sum((denominator, -1))
    if bounds(remainder)[0] >= 0 and bounds(_sum((remainder, _multiplied(less_one, -1))))[1] <= 0:
        return quotient
    shared = gcd(*(factor for _, factor in (*terms_of(remainder), *terms_of(denominator))))
    remainder, denominator = _scaled(remainder, shared), _scaled(denominator, shared)
    terms = dict(terms_of(remainder))
    constant = terms.pop((), 0)
    match [*terms.items()]:
        case [((Quotient() as inner,), 1)]:  # (a // b + c) // d is (a + b * c) // (b * d)
            dividend = _sum((inner.numerator, _multiplied(inner.denominator, constant)))
            divisor = _multiplied(inner.denominator, denominator)
            return _sum((quotient, _quotient(dividend, divisor)))
        case _:
            pass
    if max(terms_of(remainder), key=_order)[1] < 0:
        # floor(-x / d) is -floor((x + d - 1) / d): one form for what is rounded up.
        up = _quotient(_sum((_multiplied(remainder, -1), denominator, -1)), denominator)
        return _sum((quotient, _multiplied(up, -1)))
    return _sum((quotient, _expression({(Quotient(remainder, denominator),): 1})))


def _short_division(numerator: Extent, denominator: int) -> tuple[Extent, Extent]:
    """Polynomials with numerator = quotient * denominator + remainder.

    Coefficients of the remainder keep their sign, for narrow bounds; its constant is at least 0.
    """
    terms: dict[Monomial, int] = {}
    for monomial, factor in terms_of(numerator):
        rounded = abs(factor) // denominator * (-1 if factor < 0 else 1)
        terms[monomial] = rounded if monomial else factor // denominator
    quotient = _expression(terms)
    return quotient, _sum((numerator, _multiplied(quotient, -denominator)))


def _long_division(numerator: Extent, denominator: Expression) -> tuple[Extent, Extent]:
    """Polynomials with numerator = quotient * denominator + remainder.

    Terms that the leading one divides are divided, the largest first: (n*m + 2*n) by (m + 2) is n,
    with the remainder 0.
    """
    leading, factor = max(denominator.terms, key=_order)
    quotient: Extent = 0
    remainder = numerator
    while True:
        divisible = [
            (monomial, number)
            for monomial, number in terms_of(remainder)
            if number % factor == 0 and _divided(monomial, leading) is not None and number
        ]
        if not divisible:
            return quotient, remainder
        monomial, number = max(divisible, key=_order)
        partner = _divided(monomial, leading)
        assert partner is not None
        step = _expression({partner: number // factor})
        quotient = _sum((quotient, step))
        remainder = _sum((remainder, _multiplied(_multiplied(step, denominator), -1)))


def _divided(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """A monomial divided by another; None if that does not divide it."""
    remaining = list(monomial)
    for atom in divisor:
        if atom not in remaining:
            return None
        remaining.remove(atom)
    return tuple(remaining)


def _order(term: tuple[Monomial, int]) -> tuple[int, tuple[str, ...]]:
    """The key of an order of monomials that multiplication keeps, for long division to end."""
    return len(term[0]), tuple(map(str, term[0]))


def _scaled(extent: Extent, divisor: int) -> Extent:
    """An extent divided by a number that divides all its coefficients."""
    return _expression({monomial: factor // divisor for monomial, factor in terms_of(extent)})


def single_atom(extent: Extent) -> Atom | None:
    """The atom that an extent is, if it is one."""
    match [*terms_of(extent)]:
        case [((atom,), 1)]:
            return atom
        case _:
            return None


def _in_brackets(extent: Extent) -> str:
    """The text of an extent, in brackets if it is a sum or a quotient."""
    simple = not isinstance(extent, Expression) or isinstance(single_atom(extent), Symbol | Maximum)
    return str(extent) if simple else f"({extent})"


def _term_text(monomial: Monomial, factor: int) -> str:
    atoms = [f"({atom})" if isinstance(atom, Quotient) else str(atom) for atom in monomial]
    if len(atoms) == 1 and factor in (1, -1):
        atoms = [str(monomial[0])] if factor == 1 else atoms
    if factor == -1 and atoms:
        return "-" + "*".join(atoms)
    return "*".join(atoms if factor == 1 and atoms else [str(factor), *atoms])


def _value(extent: Extent, size: Callable[[Symbol], int]) -> int:
    if not isinstance(extent, Expression):
        return extent
    total = 0
    for monomial, factor in extent.terms:
        for atom in monomial:
            if isinstance(atom, Symbol):
                factor *= size(atom)
            elif isinstance(atom, Quotient):
                factor *= _value(atom.numerator, size) // _value(atom.denominator, size)
            else:
                factor *= max(_value(operand, size) for operand in atom.extents)
        total += factor
    return total


def _atom_bounds(atom: Atom, ranges: Mapping[Symbol, Range]) -> Range:
    if isinstance(atom, Symbol):
        return ranges.get(atom) or (atom.low, inf if atom.high is None else atom.high)
    if isinstance(atom, Maximum):
        cases = [bounds(extent, ranges) for extent in atom.extents]
        return max(low for low, _ in cases), max(high for _, high in cases)
    low, high = bounds(atom.numerator, ranges)
    small, large = bounds(atom.denominator, ranges)
    small = max(small, 1)
    return floor(low, large if low >= 0 else small), floor(high, small if high >= 0 else large)


def _decide(extent: Extent, comparison: Relation) -> bool:
    """Whether an extent compares so with 0, if need be by assumption."""
    if not isinstance(extent, Expression):
        return {"==": extent == 0, "<": extent < 0, "<=": extent <= 0}[comparison]
    low, high = bounds(extent)
    always = {"==": low == high == 0, "<": high < 0, "<=": high <= 0}[comparison]
    never = {"==": low > 0 or high < 0, "<": low >= 0, "<=": low > 0}[comparison]
    if always or never:
        return always
    judge = DECIDING.get()
    if judge is None:
        raise Undecided(f"{extent} {comparison} 0 holds for some sizes only")
    return judge.decide(extent, comparison)
