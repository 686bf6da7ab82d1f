"""Assumptions about sizes: the strongest conditions, the ranges that they leave, exact equality."""

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.tensors.arithmetic import maximum
from compiler.tensors.assumptions import assuming, assuming_nothing
from compiler.tensors.exact import ExactExpression, exactly, plain
from compiler.tensors.extents import Extent, Undecided, bounds, extent_of, value_at
from compiler.tensors.inequalities import least
from compiler.tensors.symbols import Symbol
from tests.tensors.test_extents import SIZES, Program, extent, number, programs

LENGTH, BATCH = Symbol("length", 2, 1 << 30, 23), Symbol("batch", 2, 1 << 30, 3)
N, B = extent_of(LENGTH), extent_of(BATCH)


def test_of_several_bounds_of_a_sum_the_least_is_a_condition():
    with assuming() as assumptions:
        assert 32 * N * B <= 6400
        assert N * B < 500
        assert 64 * B * N <= 6401
        assert N * B != 0
    assert [*map(str, assumptions)] == ["batch*length - 100 <= 0"]


def test_a_positive_factor_of_all_terms_decides_nothing():
    with assuming() as assumptions:
        assert B * N > B
        assert 768 * B * N != 768 * B
    assert not [*assumptions]


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        (lambda: N <= 64, 2, 64),
        (lambda: 2 * N < 129, 2, 64),
        (lambda: N // 3 >= 2, 6, None),
        (lambda: (N + 1) // 2 // 2 > 1, 7, None),
        (lambda: (N - 3) // 8 <= 4, 2, 42),
        (lambda: N * B > 12, 2, None),
    ],
)
def test_bounds_that_are_assumed_narrow_a_symbol(
    condition: Callable[[], bool], low: int, high: int | None
):
    with assuming() as assumptions:
        assert condition()
    narrow = assumptions.narrowed().get(LENGTH, LENGTH)
    assert (narrow.low, narrow.high, narrow.hint) == (low, high or LENGTH.high, LENGTH.hint)


@given(programs(), programs(), st.integers(2, 40))
def test_a_narrowed_symbol_has_all_sizes_that_meet_the_conditions(
    first: Program, second: Program, size: int
):
    with assuming() as assumptions:
        _ = extent(first) <= extent(second)
    for symbol, narrow in assumptions.narrowed().items():
        sizes = {"n": 8, "m": 3, "k": 2} | {symbol.name: size}
        if assumptions.hold(sizes):
            assert narrow.low <= size
            assert narrow.high is None or size <= narrow.high


def test_a_symbol_that_a_condition_makes_a_number_is_pinned():
    with assuming() as assumptions:
        assert N // 4 == 5
        assert (N * B) % 3 == 0
        assert list(range(B)) == [0, 1, 2]
    assert assumptions.pinned() == {LENGTH: 23, BATCH: 3}


def test_a_symbol_that_is_a_multiple_is_that_of_another():
    height, width = (extent_of(Symbol(name, 2, 101, 8)) for name in ("height", "width"))
    with assuming() as assumptions:
        assert N % 23 == 0
        assert height * width * B == 4 * (height // 2) * (width // 2) * B
        assert (height + 1) % 3 == 0
    others = {symbol.name: value for symbol, value in assumptions.multiples().items()}
    assert {name: str(value) for name, value in others.items()} == {
        "length": "23*length/23",
        "height": "2*height/2",
        "width": "2*width/2",
    }
    assert bounds(others["height"]) == (2, 100)


def test_what_is_no_multiple_stays():
    with assuming() as assumptions:
        assert N % 2 != 0
        assert (N * B) % 3 == 0
        assert N - 11 * (N // 2) == -98
        assert 2 * (N // 2) - 2 * B == 16
    assert not assumptions.multiples()


def test_where_nothing_is_assumed_bounds_prove():
    with assuming() as outer, assuming_nothing():
        assert B * N - B > 0
        assert (N + 7) // 8 * 8 >= N
        with pytest.raises(Undecided):
            _ = N == 23
    assert not [*outer]


@given(programs())
def test_exact_extents_are_the_same_numbers(program: Program):
    written = extent(program)
    sizes = {"n": 8, "m": 5, "k": 2}
    changed: Extent = (exactly(written) * 3 + 1) // 2 - exactly(written)
    assert value_at(changed, sizes) == value_at((written * 3 + 1) // 2 - written, sizes)
    assert hash(exactly(written)) == hash(written)
    assert plain(exactly(written)) == written


def test_exact_extents_are_equal_for_all_sizes_or_not():
    exact, other = exactly(N * 64), exactly(B * 64)
    assert isinstance(exact, ExactExpression)
    assert exact == 64 * N
    assert 64 * N == exact
    assert exact != other
    assert exactly(N) != 23
    assert (exactly(N), 768) == (exactly(extent_of(LENGTH)), 768)
    with assuming() as assumptions:
        assert exactly(N - 2) != 0
    assert [*map(str, assumptions)] == ["length - 2 != 0"]


def test_symbols_of_other_compilations_are_others():
    scopes = count(1)
    first, second = (extent_of(Symbol("n", 2, None, 8, next(scopes))) for _ in range(2))
    assert str(first // 2) == str(second // 2)
    assert hash(first // 2) != hash(second // 2)
    assert exactly(first // 2) != exactly(second // 2)


@settings(max_examples=400)
@given(programs(), SIZES)
def test_no_value_is_below_the_least(program: Program, sizes: dict[str, int]):
    assert least(extent(program)) <= number(program, sizes)


def test_extents_that_differ_have_other_hashes():
    written = [N - B, N - 2 * B, 2 * N - B, N + B - 1, N + B - 2, -N, -2 * N]
    written += [(N - B) // 3, (N - 2 * B) // 3, maximum(N - B, 1), maximum(N - 2 * B, 1)]
    assert len({*map(hash, written)}) == len(written)


def test_symbols_that_are_assumed_to_be_equal_are_merged():
    others = [Symbol(name, 2, None, 23) for name in ("width", "count")]
    width, other = map(extent_of, others)
    with assuming() as assumptions:
        assert N == width
        assert 3 * other == 3 * width
        assert N - other == 0
        assert N != B
    assert assumptions.merged() == {LENGTH: others[1], others[0]: others[1]}
