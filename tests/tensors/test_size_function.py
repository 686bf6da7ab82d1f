"""One function gives the numbers that extents are, each evaluated alone."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.tensors.arithmetic import maximum
from compiler.tensors.extents import Extent, Symbol, extent_of, value_at
from compiler.tensors.size_function import SizeFunctionBuilder

NAMES = ("batch", "x.0", "length")
SYMBOLS = [extent_of(Symbol(name, 1, hint=8)) for name in NAMES]

EXTENTS = st.recursive(
    st.sampled_from([*SYMBOLS, 3, 7, 64]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(1, 9)).map(lambda pair: pair[0] // pair[1]),
        st.tuples(inner, inner).map(lambda pair: maximum(*pair)),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.lists(EXTENTS, min_size=1, max_size=12),
    st.fixed_dictionaries({name: st.integers(1, 500) for name in NAMES}),
)
def test_numbers_are_those_of_each_extent(extents: list[Extent], sizes: dict[str, int]) -> None:
    builder = SizeFunctionBuilder(NAMES)
    positions = [builder.position(extent) for extent in extents]
    function = pickle.loads(pickle.dumps(builder.function()))
    numbers = function(sizes[name] for name in NAMES)
    assert [numbers[at] for at in positions] == [value_at(extent, sizes) for extent in extents]


def test_a_part_that_several_extents_have_is_computed_once() -> None:
    builder = SizeFunctionBuilder(["batch"])
    half = (SYMBOLS[0] + 1) // 2
    for factor in range(2, 6):
        builder.position(factor * half)
    assert builder.function().text.count("// 2") == 1


def test_a_symbol_may_stand_for_the_largest_of_others() -> None:
    builder, end = SizeFunctionBuilder(["batch"]), Symbol("end")
    builder.define(end, [SYMBOLS[0] * 3, 40])
    positions = [builder.position(extent) for extent in (extent_of(end), extent_of(end) + 1)]
    assert [builder.function()([20])[at] for at in positions] == [60, 61]
    assert [builder.function()([2])[at] for at in positions] == [40, 41]


def test_a_symbol_without_a_value_is_named() -> None:
    with pytest.raises(KeyError, match="length"):
        SizeFunctionBuilder(["batch"]).position(SYMBOLS[2] + 1)
