"""Strided windows against numpy's own."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from compiler.analysis.strides import Strided


def elements(window: Strided) -> NDArray[Any]:
    """Where each element lies."""
    indices = np.indices(window.shape).reshape(len(window.shape), -1)
    steps = np.array(window.strides, np.int64).reshape(-1, 1)
    places = (indices * steps).sum(0) + window.offset
    return places.reshape(window.shape)


@st.composite
def windows(draw: st.DrawFn) -> tuple[Strided, NDArray[Any]]:
    """A window after some transposes and slices, and numpy's view of a buffer of indices."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    window, array = Strided.contiguous(shape), np.arange(np.prod(shape)).reshape(shape)
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            order = draw(st.permutations(range(len(shape))))
            window, array = window.transposed(order), array.transpose(order)
        else:
            axis = draw(st.integers(0, len(shape) - 1))
            start = draw(st.integers(0, array.shape[axis] - 1))
            step = draw(st.integers(1, 2))
            taken = range(start, array.shape[axis], step)
            window = window.sliced(axis, start, len(taken), step)
            array = array[(slice(None),) * axis + (slice(start, None, step),)]
    return window, array


def is_view(array: NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Whether numpy reshapes without a copy."""
    return np.shares_memory(array, array.reshape(shape))


@given(windows(), st.data())
def test_windows(pair: tuple[Strided, NDArray[Any]], data: st.DataObject):
    window, array = pair
    np.testing.assert_array_equal(elements(window), array)
    shapes = [
        (a, b, array.size // (a * b))
        for a in range(1, array.size + 1)
        for b in range(1, array.size + 1)
        if array.size % (a * b) == 0
    ]
    shape = data.draw(st.sampled_from(shapes))
    found = window.reshaped(shape)
    assert (found is not None) == is_view(array, shape)
    if found is not None:
        np.testing.assert_array_equal(elements(found), array.reshape(shape))


@given(windows())
def test_broadcast(pair: tuple[Strided, NDArray[Any]]):
    window, array = pair
    shape = (2, *(3 if extent == 1 else extent for extent in array.shape))
    np.testing.assert_array_equal(elements(window.broadcast(shape)), np.broadcast_to(array, shape))
