"""Bounds over symbols hold: against all values of random terms and extents."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest

from compiler.kernels.tir.terms.bounds import ExactTerms, SizedBounds
from compiler.kernels.tir.terms.integers import Integer, KernelTerms, subterms
from compiler.kernels.tir.terms.linear import Sums
from compiler.tensors.arithmetic import maximum
from compiler.tensors.extents import Extent, extent_of, value_at
from compiler.tensors.inequalities import least
from compiler.tensors.symbols import Symbol

M, N = Symbol("m", 2, 9, 4), Symbol("n", 2, 9, 6)
ALL = [{"m": m, "n": n} for m, n in product(range(2, 10), repeat=2)]

COMPUTE: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    "==": lambda a, b: int(a == b),
}


def value_of(term: Integer, values: Mapping[Integer, int]) -> int:
    """The value of a term for values of its axes."""
    known = dict(values)
    for part in subterms((term,)):
        if part not in known:
            operands = [known[operand] for operand in part.operands]
            if part.kind == "number":
                known[part] = part.low
            elif part.kind == "not":
                known[part] = 1 - operands[0]
            else:
                known[part] = COMPUTE[part.kind](operands[0], operands[1])
    return known[term]


class RandomTerms:
    """Random terms over two symbols and two loops, the first of which has m turns."""

    def __init__(self, random: Random):
        self.terms, self.random = KernelTerms(), random
        self.m, self.n = (self.terms.axis(s.name, 2, 9) for s in (M, N))
        self.i, self.j = self.terms.axis("i", 0, 8), self.terms.axis("j", 0, 5)
        self.sizes = {self.m: extent_of(M), self.n: extent_of(N)}

    def term(self, depth: int) -> Integer:
        """A term of so many levels of operators."""
        if depth == 0:
            number = self.terms.number(self.random.randint(0, 4))
            return self.random.choice([self.m, self.n, self.i, self.j, number])
        kind = self.random.choice(["+", "-", "*", "//", "%", "min", "max"])
        first, second = self.term(depth - 1), self.term(self.random.randrange(depth))
        if kind in ("//", "%"):
            second = self.random.choice([self.m, self.n, self.terms.number(3)])
        return self.terms.apply(kind, first, second)

    def condition(self) -> Integer:
        """A comparison of terms, or its contrary."""
        kind = self.random.choice(["<", "<=", "=="])
        compared = self.terms.apply(kind, self.term(1), self.term(1))
        return self.random.choice([compared, self.terms.apply("not", compared)])


@pytest.mark.parametrize("seed", range(60))
def test_no_value_is_outside_the_bounds_of_a_term(seed: int):
    random = RandomTerms(Random(seed))
    apply = random.terms.apply
    conditions = (apply("<", random.i, random.m), random.condition())
    bounds = SizedBounds(ExactTerms(random.sizes, Sums(random.terms)), conditions)
    term = random.term(3)
    upper, lower = bounds.upper(term), bounds.lower(term)
    for sizes, i, j in product(ALL, range(9), range(6)):
        values = {random.m: sizes["m"], random.n: sizes["n"], random.i: i, random.j: j}
        if all(value_of(condition, values) for condition in conditions):
            value = value_of(term, values)
            assert all(value <= value_at(n, sizes) for n in upper), (str(term), sizes, i, j, upper)
            assert all(value >= value_at(n, sizes) for n in lower), (str(term), sizes, i, j, lower)


def random_extent(random: Random, depth: int) -> Extent:
    """A random extent over m and n."""
    if depth == 0:
        return random.choice([extent_of(M), extent_of(N), random.randint(-3, 5)])
    first, second = (random_extent(random, depth - 1) for _ in range(2))
    kind = random.choice(["+", "-", "*", "//", "max"])
    if kind == "//":
        return first // random.choice([extent_of(M), extent_of(N), 3, 4])
    return maximum(first, second) if kind == "max" else COMPUTE[kind](first, second)


@pytest.mark.parametrize("seed", range(300))
def test_no_value_is_below_the_least_of_an_extent(seed: int):
    extent = random_extent(Random(seed), 3)
    assert least(extent) <= min(value_at(extent, sizes) for sizes in ALL), str(extent)


SEEN: Sequence[tuple[Callable[[Any, Any], Any], int]] = (
    (lambda m, n: m * n - m, 2),
    (lambda m, n: m - 4 * (m // 4), 0),
    (lambda m, n: (m + 5) // 6 * 6 - m, 0),
    (lambda m, n: ((m * n + 4) // 5 * 6 + 15) // 16 * 16 - (m * n + 4) // 5 * 6, 0),
    (lambda m, n: maximum(m, n) - m, 0),
    (lambda m, n: (m - 1) * n * 12 + n - 1 - 11, 14),
)
"""Extents over two symbols of at least 2, and their least values."""


@pytest.mark.parametrize(("extent", "bound"), SEEN)
def test_quotients_and_maxima_are_seen_through(extent: Callable[[Any, Any], Any], bound: int):
    first, second = (extent_of(Symbol(name, 2, None, 4)) for name in "mn")
    assert least(extent(first, second)) == bound
