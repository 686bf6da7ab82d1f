"""The axioms of proofs, on random functions of integers with exact fractions."""

from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
import z3

from compiler.frontend.interpreter.evaluation import evaluate_node
from tests.rewrite.rules.counting import MEAN_WEIGHT, counted
from tests.rewrite.rules.divisions import Definitions, quotient, remainder, row_major
from tests.rewrite.rules.equality import equal
from tests.rewrite.rules.pinning import pinned
from tests.rewrite.rules.reasoning import Reasoner
from tests.rewrite.rules.sums import (
    Call,
    Factor,
    Sum,
    call,
    read,
    substituted,
    times,
    total,
    where,
)

RANGE = range(-2, 12)
"""The integers over which concrete sums run: everything outside is 0."""


class World:
    """Random values of tensors and functions, the same wherever they are asked for."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.known: dict[Any, Fraction] = {}

    def of(self, *key: Any) -> Fraction:
        """The value of a tensor at an index, or of a function at arguments."""
        if key[0] == "integer":
            return Fraction(key[1])
        if key[0] == "Reciprocal" and key[1]:
            return 1 / key[1]
        if key not in self.known:
            self.known[key] = Fraction(self.random.randint(-5, 5), self.random.randint(1, 3))
        return self.known[key]

    def value(self, value: Sum) -> Fraction:
        """The value of a sum without free variables, one summand after the other."""
        return sum((self._term(term) for term in value), Fraction(0))

    def _term(self, term: Any) -> Fraction:
        result = Fraction(0)
        for numbers in product(RANGE, repeat=len(term.variables)):
            chosen = list(zip(term.variables, map(z3.IntVal, numbers), strict=True))
            (inner,) = substituted((term,), chosen)
            if all(z3.is_true(z3.simplify(c)) for c in inner.conditions):
                result += self._factors(inner.coefficient, inner.factors)
        return result

    def _factors(self, result: Fraction, factors: tuple[Factor, ...]) -> Fraction:
        for factor in factors:
            result *= self._factor(factor)
        return result

    def _factor(self, factor: Factor) -> Fraction:
        if isinstance(factor, Call):
            return self.of(factor.name, *(self.value(a) for a in factor.arguments))
        return self.of(factor.name, *(_integer(index) for index in factor.indices))


def _integer(index: Any) -> int:
    return index if isinstance(index, int) else z3.simplify(index).as_long()


def x(*indices: Any) -> Sum:
    return read("x", *indices)


def y(*indices: Any) -> Sum:
    return read("y", *indices)


def summed(reasoner: Reasoner, low: int, high: int, body: Any) -> Sum:
    """The sum over the integers from `low` to before `high`."""
    return total(reasoner, [high - low], lambda k: body(k[0] + low))


def pairs(reasoner: Reasoner) -> dict[str, tuple[Sum, Sum]]:
    """Sums that an axiom says are equal, by the axiom's name."""
    r, n, m = reasoner, 4, 3

    def f(i: Any) -> Sum:
        return times(r, x(i), y(i, 2))

    def two(i: Any, j: Any) -> Sum:
        return x(i, j)

    return {
        "split": (summed(r, 0, n, f), summed(r, 0, 2, f) + summed(r, 2, n, f)),
        "shift": (summed(r, 0, n, f), summed(r, 3, n + 3, lambda k: f(k - 3))),
        "linearity": (
            summed(r, 0, n, lambda k: x(k) + y(k, 0)),
            summed(r, 0, n, x) + summed(r, 0, n, lambda k: y(k, 0)),
        ),
        "distribution": (
            times(r, summed(r, 0, n, x), y(1, 1)),
            summed(r, 0, n, lambda k: times(r, x(k), y(1, 1))),
        ),
        "exchange": (
            total(r, [n], lambda i: total(r, [m], lambda j: two(i[0], j[0]))),
            total(r, [m], lambda j: total(r, [n], lambda i: two(i[0], j[0]))),
        ),
        "reversal": (summed(r, 0, n, f), summed(r, 0, n, lambda k: f(n - 1 - k))),
        "empty": (total(r, [n], lambda k: where([k[0] < 0], f(k[0]))), ()),
        "congruence": (
            call(r, "g", summed(r, 0, n, f)),
            call(r, "g", summed(r, 3, n + 3, lambda k: f(k - 3))),
        ),
        "point": (summed(r, 0, n, lambda k: where([k == 2], f(k))), f(z3.IntVal(2))),
        "conditions": (
            total(r, [n], lambda k: call(r, "g", where([k[0] < 2], x(k[0])))),
            total(r, [2], lambda k: call(r, "g", x(k[0])))
            + total(r, [n], lambda k: where([z3.Not(k[0] < 2)], call(r, "g", ()))),
        ),
        "count": (
            total(
                r,
                [n],
                lambda k: times(r, x(1), call(r, "Reciprocal", read("integer", z3.IntVal(n)))),
            ),
            x(1),
        ),
        "row-major": (
            total(r, [n, m], lambda k: two(k[0], k[1])),
            total(
                r,
                [n * m],
                lambda k: two(quotient(k[0], z3.IntVal(m)), remainder(k[0], z3.IntVal(m))),
            ),
        ),
    }


AXIOMS = sorted(pairs(Reasoner()))


@pytest.mark.parametrize("axiom", AXIOMS)
def test_axiom_is_used(axiom: str):
    reasoner = Reasoner()
    left, right = pairs(reasoner)[axiom]
    assert equal(reasoner, left, right)
    assert not equal(reasoner, left, right + x(0))


@pytest.mark.parametrize("axiom", sorted(set(AXIOMS) - {"row-major"}))
def test_axiom_holds(axiom: str):
    for seed in range(2):
        left, right = pairs(Reasoner())[axiom]
        world = World(seed)
        assert world.value(left) == world.value(right)
        assert world.value(left) == world.value(pinned(Reasoner(), left))
        assert world.value(left) == world.value(counted(Reasoner(), left))


def test_facts_about_divisions_hold():
    a, d, k = z3.Ints("a d k")
    definitions = Definitions()
    definitions.multiples.append(k)
    terms = [quotient(a, d), quotient(a + k * d, d), quotient(row_major(a, k, d), d)]
    facts = definitions.facts([term == 0 for term in terms])
    assert facts
    for numbers in product(range(-4, 5), range(1, 4), range(-2, 3)):
        chosen = list(zip((a, d, k), map(z3.IntVal, numbers), strict=True))
        assert all(_holds(z3.substitute(fact, *chosen)) for fact in facts)


def _holds(fact: Any) -> bool:
    """Whether a fact is true with Python's division."""
    a, b, c = (z3.Var(i, z3.IntSort()) for i in range(3))
    meaning = [(quotient, a / b), (remainder, a % b), (row_major, a * c + b)]
    return z3.is_true(z3.simplify(z3.substitute_funs(fact, *meaning)))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("extra", [{}, {"exclude_outside": 1}, {"antialias": 1}])
@pytest.mark.parametrize("scale", [2.0, 0.6])
def test_weights_of_a_resize_are_one_in_all(mode: str, extra: dict[str, int], scale: float):
    ones, scales = np.ones((1, 1, 5)), np.array([1, 1, scale], np.float32)
    given = {"mode": mode, **extra}
    if mode == "linear" and "exclude_outside" in extra:
        given = {"mode": mode}
    (result,) = evaluate_node("Resize", [ones, None, scales], given, precise=True)
    assert result is not None
    assert np.allclose(result, 1)


def test_a_mean_of_equal_elements_is_the_element():
    reasoner = Reasoner()
    n, place = z3.Ints("n place")
    reasoner.assume(n >= 1)
    mean = total(
        reasoner, [n], lambda k: times(reasoner, read(MEAN_WEIGHT, n, place, *k), x(place))
    )
    assert equal(reasoner, mean, x(place))


def test_relu_of_relu_is_relu():
    values = np.linspace(-2, 2, 9)
    (once,) = evaluate_node("Relu", [values], {}, precise=True)
    (twice,) = evaluate_node("Relu", [once], {}, precise=True)
    assert once is not None
    assert twice is not None
    assert np.array_equal(once, twice)
    assert evaluate_node("Relu", [np.zeros(1)], {}, precise=True) == [0]
