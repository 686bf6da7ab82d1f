"""Bounds of a kernel's integers as extents over its symbols: proofs for all sizes at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, product

from compiler.kernels.sizes import EXTENT_OPERATORS, is_number
from compiler.kernels.tir.terms.integers import Integer
from compiler.kernels.tir.terms.linear import Linear, Sums
from compiler.tensors.arithmetic import maximum, minimum
from compiler.tensors.extents import Extent, Undecided, extent_of, symbols_of, value_at
from compiler.tensors.inequalities import least as _least
from compiler.tensors.substitution import substituted
from compiler.tensors.symbols import Symbol

MOST_BOUNDS = 4
"""The bounds that are tried of one integer."""

_POINTS: tuple[Callable[[Symbol, int], int], ...] = (
    lambda symbol, i: symbol.low,
    lambda symbol, i: symbol.hint,
    lambda symbol, i: 997 + 211 * i if symbol.high is None else symbol.high,
)
"""Sizes for which bounds are compared: they are the bounds' own choice, not the proof's."""

ExtentBounds = tuple[Extent, ...]
"""Extents each of which bounds an integer; none if there is no bound over symbols."""


class ExactTerms:
    """The terms of a function that are extents, as no loop decides them; `sizes` are symbols."""

    def __init__(self, sizes: Mapping[Integer, Extent], sums: Sums):
        self.sizes = sizes
        self.sums = sums
        self._memory = dict[Integer, Extent | None](sizes)

    def of(self, term: Integer) -> Extent | None:
        """The extent that a term is, if it is one."""
        if term not in self._memory:
            self._memory[term] = term.low if term.kind == "number" else self._computed(term)
        return self._memory[term]

    def _computed(self, term: Integer) -> Extent | None:
        if term.kind not in EXTENT_OPERATORS:
            return None
        operands = [self.of(operand) for operand in term.operands]
        known = [operand for operand in operands if operand is not None]
        return EXTENT_OPERATORS[term.kind](*known) if len(known) == len(operands) else None


class SizedBounds:
    """The bounds of integers under conditions; `exact` has the terms that are extents."""

    def __init__(self, exact: ExactTerms, conditions: Sequence[Integer]):
        self._exact = exact
        self.conditions = conditions
        self._above = dict[Integer, list[Callable[[], ExtentBounds]]]()
        self._below = dict[Integer, list[Callable[[], ExtentBounds]]]()
        self._sums = list[tuple[Linear, Extent]]()
        self._multiples = dict[Integer, list[tuple[int, Extent]]]()
        self._facts = list[Extent]()
        self._memory = dict[tuple[bool, Integer], ExtentBounds]()
        self._open = set[tuple[bool, Integer]]()
        symbols = {symbol for size in exact.sizes.values() for symbol in symbols_of(size)}
        self._samples = [
            {symbol.name: point(symbol, i) for i, symbol in enumerate(sorted(symbols, key=str))}
            for point in _POINTS
        ]
        for condition in conditions:
            for own in exact.sums.implied(condition):
                self._note(own)

    def inside(self, first: Integer, last: Integer, extent: Extent) -> bool:
        """Whether all from an index to another are inside an extent for all sizes."""
        # with bounds that example sizes may have called wider than others
        lows = chain((first.low,), self.lower(first))
        highs = chain(self.upper(last), self._added(last))
        return any(map(self._is_reached, lows)) and any(
            self._is_reached(extent - 1 - high) for high in highs
        )

    def _is_reached(self, extent: Extent) -> bool:
        """Whether an extent is at least 0 for all sizes that meet the conditions."""
        if any(_least(extent - fact) >= 0 for fact in (0, *self._facts)):
            return True
        raised = self._raised
        return bool(raised) and _least(substituted(extent, raised)) >= 0

    @cached_property
    def _raised(self) -> dict[Symbol, Extent]:
        """The symbols that conditions give a larger least value, as those that have it."""
        raised = dict[Symbol, Extent]()
        for term, size in self._exact.sizes.items():
            if term not in self._below:
                continue
            (symbol,) = symbols_of(size)
            lows = [low for low in self.lower(term) if is_number(low)]
            low = max([symbol.low, *lows])
            if low > symbol.low:
                raised[symbol] = extent_of(replace(symbol, low=low, hint=max(low, symbol.hint)))
        return raised

    def upper(self, term: Integer) -> ExtentBounds:
        """Extents that a term never exceeds."""
        return self._bounds(True, term)

    def lower(self, term: Integer) -> ExtentBounds:
        """Extents that a term is never below."""
        return self._bounds(False, term)

    def _note(self, condition: Integer) -> None:
        """Take bounds from a condition: of its two sides, and of sums with an extent."""
        for most in self._exact.sums.at_most_zero(condition):
            part, extent = self._split(most)
            if len(part.factors) > 1:
                self._sums.append((part, -extent))
            elif not part.factors:
                self._facts.append(-extent)
            else:
                self._limit(*next(iter(part.factors.items())), -extent)
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

    def _limit(self, term: Integer, factor: int, most: Extent) -> None:
        """Note that a multiple of a term is at most an extent."""
        if factor == -1:
            self._below.setdefault(term, []).append(lambda: (-most,))
        elif factor > 0:
            self._multiples.setdefault(term, []).append((factor, most))
            if factor == 1:
                self._above.setdefault(term, []).append(lambda: (most,))

    def _split(self, linear: Linear) -> tuple[Linear, Extent]:
        """The part of a sum that loops decide, and the rest, which is an extent."""
        extent: Extent = linear.constant
        factors = dict[Integer, int]()
        for term, factor in linear.factors.items():
            exact = self._exact.of(term)
            if exact is None:
                factors[term] = factor
            else:
                extent = extent + exact * factor
        return Linear(factors, 0), extent

    def _at_most(self, first: Integer, second: Integer, more: int) -> None:
        """Note that a term is at most another one and a number."""
        for own, by in _addend(first):
            bound = partial(self._moved, self.upper, second, more - by)
            self._above.setdefault(own, []).append(bound)
        for own, by in _addend(second):
            bound = partial(self._moved, self.lower, first, -more - by)
            self._below.setdefault(own, []).append(bound)
            if own.kind == "%":  # a remainder is at most what is divided
                self._below.setdefault(own.operands[0], []).append(bound)

    def _moved(
        self, bounds: Callable[[Integer], ExtentBounds], term: Integer, by: int
    ) -> ExtentBounds:
        """The bounds of a term and a number."""
        return tuple(bound + by for bound in bounds(term))

    def _bounds(self, above: bool, term: Integer) -> ExtentBounds:
        key = (above, term)
        if key not in self._memory:
            if key in self._open:
                return self._plain(above, term)
            self._open.add(key)
            noted = (self._above if above else self._below).get(term, ())
            bounds = [*(n for one in noted for n in one()), *self._plain(above, term)]
            self._open.discard(key)
            self._memory[key] = self._best(above, bounds)
        return self._memory[key]

    def _best(self, above: bool, bounds: Sequence[Extent]) -> ExtentBounds:
        """The narrowest bounds for some sizes, for others others; of equal ones the shortest."""
        texts = {str(bound): bound for bound in bounds}
        if len(texts) == 1:
            return (bounds[0],)
        distinct = [texts[text] for text in sorted(texts, key=len)]
        values = [[value_at(n, sizes) for n in distinct] for sizes in self._samples]
        pick = min if above else max
        best = (own.index(pick(own)) for own in values)
        return tuple(distinct[i] for i in dict.fromkeys(best))

    def _plain(self, above: bool, term: Integer) -> ExtentBounds:
        """Bounds of a term by its operands."""
        exact = self._exact.of(term)
        if exact is not None and (term.kind != "-" or not self._below):
            return (exact,)
        known = () if exact is None else (exact,)
        number = term.high if above else term.low
        try:
            return (*known, *self._of_operands(above, term), number)
        except (Undecided, ZeroDivisionError):
            return (*known, number)

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
                yield from self._added(term) if above else ()
            case "-":
                yield from (x - y for x, y in _pairs(own(a), other(b)))
            case "*":
                yield from self._multiplied(above, a, b)
            case "//" if (divisor := self._exact.of(b)) is not None:
                yield from (x // divisor for x in own(a))
            case "%" if above:
                yield from (n - 1 for n in self.upper(b))
                yield from self.upper(a) if self._is_positive(a) else ()
            case "min" | "max":
                # any of its operands' bounds, or all of them together
                own = self.upper if above else self.lower
                a, b = map(own, term.operands)
                if above == (term.kind == "min"):
                    yield from (*a, *b)
                else:
                    pick = minimum if term.kind == "min" else maximum
                    yield from (pick(x, y) for x, y in _pairs(a, b))
            case _:
                return

    def _added(self, term: Integer) -> Iterator[Extent]:
        """Bounds of a sum a part of which is a multiple of one that has a bound."""
        whole = self._exact.sums.of(term)
        for part, most in self._sums:
            first, factor = next(iter(part.factors.items()))
            times, rest = divmod(whole.factors.get(first, 0), factor)
            if rest or times < 1:
                continue
            others, extent = self._split(whole.plus(part, -times))
            if not part.factors.keys() & others.factors.keys():
                bounds = [
                    (factor, self.upper(own) if factor > 0 else self.lower(own))
                    for own, factor in others.factors.items()
                ]
                for i in range(len(_POINTS)):
                    ends = (own[min(i, len(own) - 1)] * factor for factor, own in bounds)
                    yield sum(ends, extent + most * times)

    def _multiplied(self, above: bool, a: Integer, b: Integer) -> Iterator[Extent]:
        """Bounds of a multiplication by what is not negative."""
        own = self.upper if above else self.lower
        for first, second in ((a, b), (b, a)):
            factor = self._exact.of(second)
            if above and isinstance(factor, int) and factor > 0:
                for multiple, most in self._multiples.get(first, ()):
                    if not multiple % factor:
                        yield most // (multiple // factor)
            if factor is not None and _least(factor) >= 0:
                yield from (x * factor for x in own(first))
                return
        if self._is_positive(a) and self._is_positive(b):
            pairs = _pairs(own(a), own(b))
            yield from (x * y for x, y in pairs if above or min(_least(x), _least(y)) >= 0)

    def _is_positive(self, term: Integer) -> bool:
        """Whether a term is never below 0."""
        return term.low >= 0 or any(_least(low) >= 0 for low in self.lower(term))


def _addend(term: Integer) -> Iterator[tuple[Integer, int]]:
    """A term, and the terms that it is a sum of with a number, with that; no numbers alone."""
    if term.kind != "number":
        yield term, 0
    if term.kind == "+":
        for one, other in (term.operands, term.operands[::-1]):
            if other.kind == "number":
                yield one, other.low


def _pairs(first: ExtentBounds, second: ExtentBounds) -> Iterator[tuple[Extent, Extent]]:
    return iter([*product(first[:MOST_BOUNDS], second[:MOST_BOUNDS])][: 2 * MOST_BOUNDS])
