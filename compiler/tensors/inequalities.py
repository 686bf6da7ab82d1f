"""Lower bounds of extents that see through quotients, maxima and powers, as `bounds` does not."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from math import inf

from compiler.tensors.extents import (
    Atom,
    Expression,
    Extent,
    Maximum,
    Monomial,
    Quotient,
    atom_extent,
    bounds,
    extent_of,
    terms_of,
)
from compiler.tensors.symbols import Symbol

MOST_MAXIMA = 6
"""The maxima with cases: each doubles them, at least."""

_REMAINDERS = count()


@lru_cache(1 << 12)
def least(extent: Extent) -> float:
    """A lower bound of an extent.

    Each atom is its least value and an excess: a polynomial in these without negative coefficients
    is least where they are 0. A multiple of a quotient is that of its numerator less the remainder.
    """
    if not isinstance(extent, Expression):
        return extent
    plain = max(bounds(extent)[0], _at_least(extent))
    if plain >= 0:
        return plain
    return max([plain, *map(_at_least, _without_quotients(extent))])


def _at_least(extent: Extent, depth: int = MOST_MAXIMA) -> float:
    """The least value of each case, by what its maxima are."""
    largest = next((a for a in _atoms(extent) if isinstance(a, Maximum)), None)
    if largest is None or not depth:
        # The constant of the polynomial in what atoms are above their least values.
        lows = {atom: bounds(atom_extent(atom))[0] for atom in _atoms(extent)}
        if -inf in lows.values():
            return -inf
        moved = with_atoms(
            extent, {atom: atom_extent(atom) + int(low) for atom, low in lows.items()}
        )
        if not isinstance(moved, Expression):
            return moved
        constant = 0
        for monomial, factor in moved.terms:
            if not monomial:
                constant = factor
            elif factor < 0:
                return -inf
        return constant
    cases = (with_atoms(extent, {largest: case}) for case in largest.extents)
    bounds_of_cases = [_at_least(case, depth - 1) for case in cases]
    # An extent that grows with a maximum is at least that for each of its extents.
    factors = [
        (atom, factor)
        for monomial, factor in terms_of(extent)
        if largest in monomial
        for atom in monomial
    ]
    return (
        max(bounds_of_cases)
        if all(factor > 0 and bounds(atom_extent(atom))[0] >= 0 for atom, factor in factors)
        else min(bounds_of_cases)
    )


def _without_quotients(extent: Extent) -> Iterator[Extent]:
    """The extent with multiples of quotients by numbers as numerators without remainders."""
    for _ in range(MOST_MAXIMA):
        quotients = [atom for atom in _atoms(extent) if isinstance(atom, Quotient)]
        candidates = (_without_quotient(extent, quotient) for quotient in quotients)
        without = next((candidate for candidate in candidates if candidate is not None), None)
        if without is None:
            return
        extent = without
        yield extent


def _without_quotient(extent: Extent, quotient: Quotient) -> Extent | None:
    """The extent with a quotient as its numerator without a remainder; None where it cannot be."""
    divisor = quotient.denominator
    if isinstance(divisor, Expression):
        return None
    undivided: Extent = 0
    divided: Extent = 0
    for monomial, factor in terms_of(extent):
        if quotient not in monomial:
            undivided = undivided + _term(monomial, factor)
        elif factor % divisor or monomial.count(quotient) > 1:
            return None
        else:
            cofactors = tuple(atom for atom in monomial if atom != quotient)
            divided = divided + _term(cofactors, factor // divisor)
    # The numerator counts least where the remainder is largest.
    low, high = bounds(divided)
    if low < 0 < high:
        return None
    remainder = extent_of(Symbol(f"remainder {next(_REMAINDERS)}", 0, divisor - 1, 0))
    less = remainder if high <= 0 else divisor - 1
    return undivided + divided * (quotient.numerator - less)


def _term(monomial: Monomial, factor: int) -> Extent:
    return Expression(frozenset([(monomial, factor)])) if monomial else factor


def _atoms(extent: Extent) -> list[Atom]:
    return sorted({atom for monomial, _ in terms_of(extent) for atom in monomial}, key=str)


def with_atoms(extent: Extent, by: dict[Atom, Extent]) -> Extent:
    """An extent with others in the places of some of its atoms."""
    total: Extent = 0
    for monomial, factor in terms_of(extent):
        value: Extent = factor
        for atom in monomial:
            value = value * by.get(atom, atom_extent(atom))
        total = total + value
    return total


def at_least_zero(extent: Extent) -> bool | None:
    """Whether an extent is at least 0 for all sizes, or for none; None if neither is proved."""
    if least(extent) >= 0:
        return True
    return False if least(-extent) > 0 else None
