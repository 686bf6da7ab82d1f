"""Integers of a kernel as terms over its axes, each with an interval that holds for all of them.

A term is mathematical: what could wrap around, or what only memory knows, is an unknown of its
whole type. Equal terms are one object.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

IntegerRange = tuple[int, int]

TYPE_LIMITS: Mapping[str, IntegerRange] = {
    "bool": (0, 1),
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
"""The least and the greatest number of each type."""


@dataclass(frozen=True, slots=True, eq=False)
class Integer:
    """An integer between `low` and `high`, both included; truth values are 0 and 1.

    `kind` is "number", "axis", "unknown" or an operator of `OPERATOR_LIMITS`.
    """

    kind: str
    low: int
    high: int
    operands: tuple["Integer", ...] = ()
    name: str = ""

    def __str__(self) -> str:
        texts = [str(term) for term in self.operands]
        match self.kind:
            case "number":
                return str(self.low)
            case "axis":
                return self.name
            case "unknown":
                return f"{self.name or 'a value'} in [{self.low}, {self.high}]"
            case "min" | "max" | "not" | "select":
                return f"{self.kind}({', '.join(texts)})"
            case _:
                return f"({f' {self.kind} '.join(texts)})"


def _added(a: Integer, b: Integer) -> IntegerRange:
    return a.low + b.low, a.high + b.high


def _subtracted(a: Integer, b: Integer) -> IntegerRange:
    return a.low - b.high, a.high - b.low


def _multiplied(a: Integer, b: Integer) -> IntegerRange:
    products = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
    return min(products), max(products)


def _divided(a: Integer, b: Integer) -> IntegerRange:
    assert b.low > 0, "only quotients by positive numbers are terms"
    quotients = (a.low // b.low, a.low // b.high, a.high // b.low, a.high // b.high)
    return min(quotients), max(quotients)


def _remainder(a: Integer, b: Integer) -> IntegerRange:
    assert b.low > 0, "only remainders by positive numbers are terms"
    if a.low >= 0 and a.high < b.low:
        return a.low, a.high
    return 0, min(b.high - 1, a.high) if a.low >= 0 else b.high - 1


def _lesser(a: Integer, b: Integer) -> IntegerRange:
    return min(a.low, b.low), min(a.high, b.high)


def _greater(a: Integer, b: Integer) -> IntegerRange:
    return max(a.low, b.low), max(a.high, b.high)


def _less(a: Integer, b: Integer) -> IntegerRange:
    return int(a.high < b.low), int(a.low < b.high)


def _not_more(a: Integer, b: Integer) -> IntegerRange:
    return int(a.high <= b.low), int(a.low <= b.high)


def _equal(a: Integer, b: Integer) -> IntegerRange:
    always = a.low == a.high == b.low == b.high
    return int(always), int(a.low <= b.high and b.low <= a.high)


def _contrary(a: Integer) -> IntegerRange:
    return 1 - a.high, 1 - a.low


def _either(condition: Integer, a: Integer, b: Integer) -> IntegerRange:
    return min(a.low, b.low), max(a.high, b.high)


OPERATOR_LIMITS: Mapping[str, Callable[..., IntegerRange]] = {
    "+": _added,
    "-": _subtracted,
    "*": _multiplied,
    "//": _divided,
    "%": _remainder,
    "min": _lesser,
    "max": _greater,
    "<": _less,
    "<=": _not_more,
    "==": _equal,
    "and": _lesser,
    "or": _greater,
    "not": _contrary,
    "select": _either,
}
"""The interval of each operator's result. Quotients are rounded down, and divisors positive."""

REMEMBERED_TERMS = 1 << 12
"""Terms whose axes and unknowns are remembered."""

COMPARISONS = ("<", "<=", "==")
LOGIC = ("and", "or", "not")


class KernelTerms:
    """The terms of one kernel."""

    def __init__(self) -> None:
        self._numbers = dict[int, Integer]()
        self._axes = dict[tuple[str, int, int], Integer]()
        self._applied = dict[tuple[str | Integer, ...], Integer]()

    def number(self, value: int) -> Integer:
        """A constant."""
        if value not in self._numbers:
            self._numbers[value] = Integer("number", value, value)
        return self._numbers[value]

    def axis(self, name: str, low: int, high: int) -> Integer:
        """A variable that takes each value from `low` to `high`; the same one for equal names."""
        if low == high:
            return self.number(low)
        key = (name, low, high)
        if key not in self._axes:
            self._axes[key] = Integer("axis", low, high, (), name)
        return self._axes[key]

    def unknown(self, low: int, high: int, name: str = "") -> Integer:
        """A value that may be any in an interval, different from all others."""
        return Integer("unknown", low, high, (), name)

    def apply(self, kind: str, *operands: Integer) -> Integer:
        """An operator's result."""
        key = (kind, *operands)
        if key not in self._applied:
            self._applied[key] = self._applied_to(kind, operands)
        return self._applied[key]

    def _applied_to(self, kind: str, operands: tuple[Integer, ...]) -> Integer:
        if kind == "select" and operands[0].low == operands[0].high:
            return operands[1] if operands[0].low else operands[2]
        if kind == "+" and operands[0].low == operands[0].high == 0:
            return operands[1]
        if kind == "+" and operands[1].low == operands[1].high == 0:
            return operands[0]
        if kind == "%" and 0 <= operands[0].low and operands[0].high < operands[1].low:
            return operands[0]
        low, high = OPERATOR_LIMITS[kind](*operands)
        return self.number(low) if low == high else Integer(kind, low, high, operands)


def leaves(terms: tuple[Integer, ...]) -> list[Integer]:
    """The axes and unknowns in terms, in order of their first use."""
    return [*dict.fromkeys(leaf for term in terms for leaf in _leaves(term))]


@lru_cache(REMEMBERED_TERMS)
def _leaves(term: Integer) -> tuple[Integer, ...]:
    """The axes and unknowns in one term: conditions are asked for once an access."""
    return tuple(part for part in subterms((term,)) if part.kind in ("axis", "unknown"))


def subterms(terms: tuple[Integer, ...]) -> Iterator[Integer]:
    """All terms in terms, each once, operands first."""
    seen = set[Integer]()
    stack = [*reversed(terms)]
    while stack:
        term = stack[-1]
        waiting = [operand for operand in term.operands if operand not in seen]
        if waiting:
            stack += reversed(waiting)
            continue
        stack.pop()
        if term not in seen:
            seen.add(term)
            yield term


def addends(term: Integer) -> tuple[tuple[Integer, ...], int]:
    """The terms that a sum is made of, and the constants among them together."""
    if term.kind == "number":
        return (), term.low
    if term.kind != "+":
        return (term,), 0
    (first, one), (second, other) = map(addends, term.operands)
    return first + second, one + other


def related(goal: Integer, conditions: tuple[Integer, ...]) -> tuple[Integer, ...]:
    """The conditions that share an axis or an unknown with a goal, or with another such one."""
    reached = set(leaves((goal,)))
    rest = list(conditions)
    chosen = set[Integer]()
    while joined := [c for c in rest if not reached.isdisjoint(leaves((c,)))]:
        reached.update(leaves(tuple(joined)))
        chosen.update(joined)
        rest = [c for c in rest if c not in chosen]
    return tuple(c for c in conditions if c in chosen)
