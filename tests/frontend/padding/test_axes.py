"""Axes divided into factors, and their reshapes."""

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from compiler.frontend.padding.axes import Axis, Crop, Factor, boxed_axes, regrouped

FACTORS = [
    Factor(size, example, extent)
    for size in range(1, 5)
    for example in {size, (size + 1) // 2}
    for extent in range(1, size + 1)
    if example < size or extent == size
]
"""Factors of up to four indices, padded or not."""

PARTS = st.lists(st.sampled_from(FACTORS), min_size=1, max_size=5)


def grouped(parts: list[Factor], cuts: int) -> tuple[Axis, ...]:
    """Axes of neighbours; the bits of a number say where one ends."""
    groups: list[list[Factor]] = [[]]
    for position, part in enumerate(parts):
        if cuts >> position & 1:
            groups.append([])
        groups[-1].append(part)
    return tuple(map(Axis.of, groups))


@given(PARTS, st.integers(0, 31), st.integers(0, 31))
def test_a_reshape_keeps_elements_and_their_order(parts: list[Factor], cuts: int, others: int):
    before, after = grouped(parts, cuts), grouped(parts, others)
    array = np.arange(prod(factor.size for factor in parts))
    found = regrouped(before, [axis.sizes[0] for axis in after])
    assert found is not None
    assert [axis.sizes for axis in found] == [axis.sizes for axis in after]
    first, second = (Crop.of(axes)(array).reshape(-1) for axes in (before, found))
    np.testing.assert_array_equal(first, second)


@given(PARTS, st.data())
def test_any_reshape_is_right_or_refused(parts: list[Factor], data: st.DataObject):
    axes = tuple(Axis.of([factor]) for factor in parts)
    total = prod(factor.size for factor in parts)
    outer = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    found = regrouped(axes, [outer, total // outer])
    assume(found is not None)
    assert found is not None
    assert [axis.sizes[0] for axis in found] == [outer, total // outer]
    array = np.arange(total)
    first, second = (Crop.of(grouping)(array).reshape(-1) for grouping in (axes, found))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("before", "sizes", "after"),
    [
        ([(8, 5), (64, 37), (16, 16)], [512, 16], [(512, 185), (16, 16)]),
        ([(8, 5), (16, 16)], [128], [(128, 80)]),
        ([(64, 32)], [8, 8], [(8, 4), (8, 8)]),
        ([(8, 5), (4, 4), (6, 6)], [16, 12], [(16, 10), (12, 12)]),
        ([(8, 5), (3, 3)], [2, 12], None),
        ([(8, 8), (4, 3)], [16, 2], None),
        ([(6, 4)], [4, 1, 2], None),
    ],
)
def test_the_extents_of_reshapes(
    before: list[tuple[int, int]], sizes: list[int], after: list[tuple[int, int]] | None
):
    large, small = (tuple(shape) for shape in zip(*before, strict=True))
    found = regrouped(boxed_axes(large, small, small), sizes)
    wanted = None if found is None else [axis.sizes[::2] for axis in found]
    assert wanted == after


def test_an_element_is_one_by_every_factor():
    axes = (Axis.of([Factor(3, 2, 2), Factor(4, 3, 3)]), Axis.of([Factor(2, 2, 2)]))
    array = np.arange(24).reshape(12, 2)
    wanted = array.reshape(3, 4, 2)[:2, :3].reshape(6, 2)
    np.testing.assert_array_equal(Crop.of(axes)(array), wanted)
