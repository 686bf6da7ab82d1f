"""Extents over symbols: expressions are what numbers would be, for all sizes within bounds."""

import copy
from collections.abc import Callable
from functools import reduce
from operator import add, mul, sub
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from compiler.tensors.arithmetic import ceil_div, elements, maximum, minimum
from compiler.tensors.assumptions import Assumptions, assuming
from compiler.tensors.extent_text import extent_from_text
from compiler.tensors.extents import (
    Extent,
    Symbol,
    Undecided,
    at_hints,
    bounds,
    extent_of,
    symbols_of,
    value_at,
)

SYMBOLS = (
    Symbol("n", 1, 40, hint=8),
    Symbol("m", 0, hint=3),
    Symbol("k", 2, 9, hint=2),
)
SIZES = st.fixed_dictionaries(
    {"n": st.integers(1, 40), "m": st.integers(0, 60), "k": st.integers(2, 9)}
)
Operation = Callable[..., Any]
Program = tuple[Operation, "Program", "Program"] | Symbol | int
NUMBERS: dict[Operation, Operation] = {maximum: max, minimum: min}
"""The operations on numbers that differ from those on extents."""


def floordiv(dividend: Any, divisor: Any) -> Any:
    """A quotient, rounded down."""
    return dividend // divisor


def mod(dividend: Any, divisor: Any) -> Any:
    """The rest of a division."""
    return dividend % divisor


EXACT: list[Operation] = [add, sub, mul]
DIVISIONS: list[Operation] = [floordiv, mod, ceil_div]


def programs() -> st.SearchStrategy[Program]:
    """Arithmetic on symbols and small numbers; divisors are positive."""
    leaves = st.sampled_from(SYMBOLS) | st.integers(-3, 12)
    divisors = st.integers(1, 8) | st.sampled_from([SYMBOLS[0], SYMBOLS[2], (add, SYMBOLS[1], 1)])

    def longer(inner: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
        exact = st.tuples(st.sampled_from(EXACT), inner, inner)
        divided = st.tuples(st.sampled_from(DIVISIONS), inner, divisors)
        return exact | divided | st.tuples(st.sampled_from([maximum, minimum]), inner, inner)

    return st.recursive(leaves, longer, max_leaves=6)


def extent(program: Program) -> Extent:
    """The program run on extents."""
    if isinstance(program, tuple):
        return program[0](extent(program[1]), extent(program[2]))
    return extent_of(program) if isinstance(program, Symbol) else program


def number(program: Program, sizes: dict[str, int]) -> int:
    """The program run on numbers."""
    if isinstance(program, tuple):
        operation = NUMBERS.get(program[0], program[0])
        return operation(number(program[1], sizes), number(program[2], sizes))
    return sizes[program.name] if isinstance(program, Symbol) else program


@given(programs(), SIZES)
def test_an_expression_has_the_value_of_its_arithmetic(program: Program, sizes: dict[str, int]):
    assert value_at(extent(program), sizes) == number(program, sizes)


@given(programs(), SIZES)
def test_values_are_within_the_bounds(program: Program, sizes: dict[str, int]):
    low, high = bounds(extent(program))
    assert low <= number(program, sizes) <= high


@given(programs(), programs(), SIZES)
def test_comparisons_hold_for_all_sizes_that_meet_the_assumptions(
    first: Program, second: Program, sizes: dict[str, int]
):
    a, b = extent(first), extent(second)
    with assuming() as assumptions:
        outcomes = (a == b, a < b, a <= b, a > b, a >= b, bool(a))
    assume(assumptions.hold(sizes))
    x, y = number(first, sizes), number(second, sizes)
    assert outcomes == (x == y, x < y, x <= y, x > y, x >= y, bool(x))


@given(programs(), programs())
def test_assumptions_hold_for_the_example_sizes(first: Program, second: Program):
    with assuming() as assumptions:
        _ = extent(first) <= extent(second)
        _ = int(extent(first))
    assert assumptions.hold({symbol.name: symbol.hint for symbol in SYMBOLS})


@given(programs(), SIZES)
def test_nothing_is_decided_that_some_size_contradicts(program: Program, sizes: dict[str, int]):
    expression = extent(program)
    value = number(program, sizes)
    for decide, truth in ((expression.__eq__, value == 0), (expression.__le__, value <= 0)):
        try:
            assert decide(0) == truth
        except Undecided:
            continue


N, M, K = map(extent_of, SYMBOLS)


@pytest.mark.parametrize(
    ("written", "simple"),
    [
        (N * M + 2 * M - M * N, 2 * M),
        ((N * M + 2 * N) // (M + 2), N),
        ((N * K - N + K - 1) // (K - 1), N + 1),
        (N * 768 * M // (768 * N), M),
        (elements((N, 12, K, 64)) // (12 * K), 64 * N),
        ((8 * N + 7) // 8, N),
        ((N + 130) // 64, 2 + (N + 2) // 64),
        (-(-N // 4), (N + 3) // 4),
        ((4 * N) // 8, N // 2),
        (((N + 1) // 2 + 1) // 2, (N + 3) // 4),
        ((N // K + 1) // K, (N + K) // (K * K)),
        (maximum(N, 0), N),
        (maximum(N, 41), 41),
        (maximum(N - 1, N, N + 1), N + 1),
        (maximum(N, M), maximum(M, N, M)),
        (minimum(N, 40), N),
        (6 * K % 3, 0),
    ],
)
def test_equal_extents_have_one_form(written: Extent, simple: Extent):
    assert written == simple
    assert hash(written) == hash(simple)


def test_an_expression_reads_as_arithmetic():
    assert str(N * M * 2 - M + 1) == "2*m*n - m + 1"
    assert str((N + 3) // 4 * 4) == "4*((n + 3)//4)"
    assert str(maximum(N, M)) == "max(m, n)"
    assert symbols_of((N + 3) // K + maximum(M, 1 - N)) == set(SYMBOLS)


def test_a_size_without_choice_is_a_number():
    assert extent_of(Symbol("one", 1, 1, hint=1)) == 1
    assert N - N == 0
    assert at_hints(N * M) == 24


def test_comparisons_that_sizes_disagree_on_need_assumptions():
    assert N >= 1
    assert N != 41
    with pytest.raises(Undecided, match="n - 1 == 0 holds for some sizes only"):
        _ = N == 1
    with pytest.raises(Undecided):
        range(N)
    with assuming() as outer:
        assert N != 1
        with assuming() as inner:
            assert list(range(K)) == [0, 1]
        assert [*map(str, inner)] == ["k - 2 == 0"]
    assert [*map(str, outer)] == ["n - 1 != 0"]
    assert not outer.hold({"n": 1})


def test_bounds_of_a_symbol_admit_its_hint():
    with pytest.raises(ValueError, match="'n' is from 4 to 3, its hint is 3"):
        Symbol("n", 4, 3, hint=3)
    with pytest.raises(ZeroDivisionError):
        with assuming():
            _ = N // (M - 3)


def test_no_assumptions_hold_for_all_sizes():
    assert Assumptions().hold({})


@given(programs())
def test_texts_and_copies_are_the_same_extents(program: Program) -> None:
    value = extent(program)
    assert extent_from_text(str(value), {symbol.name: symbol for symbol in SYMBOLS}) == value
    assert copy.deepcopy(value) == value


@pytest.mark.parametrize(
    "text", ["", "n +", "x", "n // 0", "f(n)", "n / 2", "n.low", "'n'", "True"]
)
def test_other_texts_are_no_extents(text: str) -> None:
    with pytest.raises(ValueError, match="is not an extent over n"):
        extent_from_text(text, {"n": SYMBOLS[0]})


def test_a_quotient_of_a_quotient_is_one_of_what_that_divides():
    n = extent_of(Symbol("n", 2, None, 5))
    twice = ((n + 59) // 60 + 1) // 2
    assert str(twice) == str((n + 119) // 120)
    for size in range(2, 500):
        assert value_at(twice, {"n": size}) == ((size + 59) // 60 + 1) // 2


def squared(extent: Extent) -> Extent:
    """A power of a sum has as many terms as there are combinations."""
    return extent * extent


def halved_and_more(extent: Extent) -> Extent:
    """Quotients that share an operand double with each of a chain."""
    return extent // 2 + extent // 3


@pytest.mark.parametrize("grow", [squared, halved_and_more])
def test_an_extent_has_a_bounded_number_of_atoms(grow: Callable[[Extent], Extent]):
    extent: Extent = reduce(add, [extent_of(Symbol(name, 2)) for name in "abcdef"])
    with pytest.raises(Undecided, match="more than 256 steps"):
        reduce(lambda result, _: grow(result), range(30), extent)
