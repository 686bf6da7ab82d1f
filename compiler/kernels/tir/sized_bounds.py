"""Bounds of a kernel's integers as extents over its symbols: proofs for all sizes at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from compiler.kernels.tir.integers import Integer
from compiler.tensors.extents import Extent, Undecided, maximum, minimum
from compiler.tensors.inequalities import least as _least

MOST_BOUNDS = 4
"""The bounds that are tried of one integer."""

Bounds = tuple[Extent, ...]
"""Extents each of which bounds an integer; none if there is no bound over symbols."""


class SizedBounds:
    """The bounds of integers under conditions; `sizes` has the terms that are symbols."""

    def __init__(self, sizes: Mapping[Integer, Extent], conditions: Sequence[Integer]):
        self._sizes = sizes
        self._above = dict[Integer, list[Callable[[], Bounds]]]()
        self._below = dict[Integer, list[Callable[[], Bounds]]]()
        self._memory = dict[tuple[bool, Integer], Bounds]()
        self._open = set[tuple[bool, Integer]]()
        for condition in conditions:
            self._note(condition)

    def inside(self, index: Integer, extent: Extent) -> bool:
        """Whether an index is inside an extent for all sizes."""
        return any(_least(low) >= 0 for low in self.lower(index)) and any(
            _least(extent - 1 - high) >= 0 for high in self.upper(index)
        )

    def upper(self, term: Integer) -> Bounds:
        """Extents that a term never exceeds."""
        return self._bounds(True, term)

    def lower(self, term: Integer) -> Bounds:
        """Extents that a term is never below."""
        return self._bounds(False, term)

    def exact(self, term: Integer) -> Extent | None:
        """The extent that a term is, if no loop decides it."""
        if term.kind == "number":
            return term.low
        if term in self._sizes:
            return self._sizes[term]
        if term.kind not in _EXACT:
            return None
        operands = [self.exact(operand) for operand in term.operands]
        known = [operand for operand in operands if operand is not None]
        return _EXACT[term.kind](*known) if len(known) == len(operands) else None

    def _note(self, condition: Integer) -> None:
        """Take bounds from a condition."""
        negated = condition.kind == "not"
        inner = condition.operands[0] if negated else condition
        if inner.kind not in ("<", "<=", "=="):
            return
        first, second = inner.operands
        if inner.kind == "==":
            if not negated:
                self._at_most(first, second, 0)
                self._at_most(second, first, 0)
            return
        if negated:
            self._at_most(second, first, 0 if inner.kind == "<" else -1)
        else:
            self._at_most(first, second, -1 if inner.kind == "<" else 0)

    def _at_most(self, first: Integer, second: Integer, more: int) -> None:
        """Note that a term is at most another one and a number."""
        for own, by in _moved(first):
            bound = (lambda by=by: tuple(n + more - by for n in self.upper(second)))
            self._above.setdefault(own, []).append(bound)
        for own, by in _moved(second):
            bound = (lambda by=by: tuple(n - more - by for n in self.lower(first)))
            self._below.setdefault(own, []).append(bound)
            if own.kind == "%":  # a remainder is at most what is divided
                self._below.setdefault(own.operands[0], []).append(bound)

    def _bounds(self, above: bool, term: Integer) -> Bounds:
        key = (above, term)
        if key not in self._memory:
            if key in self._open:
                return self._plain(above, term)
            self._open.add(key)
            noted = (self._above if above else self._below).get(term, ())
            bounds = [*(n for one in noted for n in one()), *self._plain(above, term)]
            self._open.discard(key)
            self._memory[key] = _distinct(bounds)
        return self._memory[key]

    def _plain(self, above: bool, term: Integer) -> Bounds:
        """Bounds of a term by its operands."""
        exact = self.exact(term)
        if exact is not None:
            return (exact,)
        number = term.high if above else term.low
        try:
            return (*self._of_operands(above, term), number)[:MOST_BOUNDS]
        except (Undecided, ZeroDivisionError):
            return (number,)

    def _of_operands(self, above: bool, term: Integer) -> Iterator[Extent]:
        own, other = (self.upper, self.lower) if above else (self.lower, self.upper)
        if len(term.operands) == 3:
            pick = maximum if above else minimum
            yield from (pick(a, b) for a, b in _pairs(*map(own, term.operands[1:])))
        if len(term.operands) != 2:
            return
        a, b = term.operands
        match term.kind:
            case "+":
                yield from (x + y for x, y in _pairs(own(a), own(b)))
            case "-":
                yield from (x - y for x, y in _pairs(own(a), other(b)))
            case "*":
                yield from self._multiplied(own, a, b)
            case "//":
                divisor = self.exact(b)
                if divisor is not None:
                    yield from (x // divisor for x in own(a))
            case "%":
                if above:
                    yield from (n - 1 for n in self.upper(b))
                    yield from self.upper(a) if self._is_positive(a) else ()
            case "min" | "max":
                if above == (term.kind == "min"):
                    yield from (*own(a), *own(b))
                else:
                    pick = minimum if term.kind == "min" else maximum
                    yield from (pick(x, y) for x, y in _pairs(own(a), own(b)))
            case _:
                return

    def _multiplied(
        self, own: Callable[[Integer], Bounds], a: Integer, b: Integer
    ) -> Iterator[Extent]:
        """Bounds of a multiplication by what is not negative."""
        for first, second in ((a, b), (b, a)):
            factor = self.exact(second)
            if factor is not None and _least(factor) >= 0:
                yield from (x * factor for x in own(first))
                return
        if self._is_positive(a) and self._is_positive(b):
            yield from (x * y for x, y in _pairs(own(a), own(b)))

    def _is_positive(self, term: Integer) -> bool:
        """Whether a term is never below 0."""
        return term.low >= 0 or any(_least(low) >= 0 for low in self.lower(term))


def _moved(term: Integer) -> Iterator[tuple[Integer, int]]:
    """A term, and the terms that it is a sum of with a number, with that."""
    yield term, 0
    if term.kind == "+":
        for one, other in (term.operands, term.operands[::-1]):
            if other.kind == "number":
                yield one, other.low


def _distinct(bounds: Sequence[Extent]) -> Bounds:
    """The first bounds of different texts: `==` would decide between extents."""
    return tuple({str(bound): bound for bound in reversed(bounds)}.values())[::-1][:MOST_BOUNDS]


def _pairs(first: Bounds, second: Bounds) -> Iterator[tuple[Extent, Extent]]:
    return iter([*product(first[:MOST_BOUNDS], second[:MOST_BOUNDS])][: 2 * MOST_BOUNDS])


_EXACT: Mapping[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": minimum,
    "max": maximum,
}
