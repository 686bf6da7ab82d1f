"""Windows against numpy, and against the positions that runs can describe at all."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from compiler.tensors.strides import AxisRun, StridedWindow

Positions = NDArray[Any]


def positions(runs: tuple[AxisRun, ...]) -> Positions:
    """The offsets of an axis's indices in the buffer."""
    found = np.zeros(1, np.int64)
    for extent, stride in runs:
        found = np.add.outer(found, np.arange(extent) * stride).ravel()
    return found


def elements(window: StridedWindow) -> Positions:
    """The position of each element in the buffer."""
    found = np.array(window.offset)
    for runs in window.axes:
        found = np.add.outer(found, positions(runs))
    return found


def are_runs(line: Positions) -> bool:
    """Whether the positions along an axis are counted by digits of constant steps."""
    if len(line) == 1:
        return True
    steps = np.diff(line)
    length = 1 + int(np.argmax(np.append(steps, ~steps[0]) != steps[0]))
    if len(line) % length:
        return False
    rows = line.reshape(-1, length)
    return bool((np.diff(rows - rows[:, :1], axis=0) == 0).all()) and are_runs(rows[:, 0])


def is_window(array: Positions) -> bool:
    """Whether positions are sums of one term for each axis, each counted by runs."""
    first = array.ravel()[0]
    total = np.array(first)
    for axis in range(array.ndim):
        line = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)[:, 0]
        if not are_runs(line):
            return False
        total = np.add.outer(total, line - first)
    return np.array_equal(total, array)


def shapes_of(size: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of three axes with so many elements."""
    divisors = [n for n in range(1, size + 1) if size % n == 0]
    return st.sampled_from(
        [(a, b, size // (a * b)) for a in divisors for b in divisors if size // a % b == 0]
    )


Pair = tuple[StridedWindow, Positions]


def transposed(draw: st.DrawFn, window: StridedWindow, array: Positions) -> Pair:
    order = draw(st.permutations(range(array.ndim)))
    return window.transposed(order), array.transpose(order)


def sliced(draw: st.DrawFn, window: StridedWindow, array: Positions) -> Pair:
    axis = draw(st.integers(0, array.ndim - 1))
    start, step = draw(st.integers(0, array.shape[axis] - 1)), draw(st.integers(1, 4))
    stop = draw(st.integers(start + 1, array.shape[axis]))
    taken = range(start, stop, step)
    found = window.sliced(axis, start, len(taken), step)
    part = array[(slice(None),) * axis + (slice(start, stop, step),)]
    assert found is not None or len(window.axes[axis]) > 1
    return (window, array) if found is None else (found, part)


def reshaped(draw: st.DrawFn, window: StridedWindow, array: Positions) -> Pair:
    shape = draw(shapes_of(array.size))
    found, other = window.reshaped(shape), array.reshape(shape)
    assert (found is not None) == is_window(other)
    return (window, array) if found is None else (found, other)


@st.composite
def windows(draw: st.DrawFn) -> Pair:
    """A window after some steps, and numpy's array of the positions of its elements."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    window, array = StridedWindow.contiguous(shape), np.arange(np.prod(shape)).reshape(shape)
    for step in draw(st.lists(st.sampled_from([transposed, sliced, reshaped]), max_size=6)):
        window, array = step(draw, window, array)
    return window, array


@given(windows())
def test_windows(pair: Pair):
    window, array = pair
    assert window.shape == array.shape
    np.testing.assert_array_equal(elements(window), array)


@given(windows())
def test_strides(pair: Pair):
    window, array = pair
    for axis, extent in enumerate(array.shape):
        steps = np.unique(np.diff(np.moveaxis(array, axis, 0).reshape(extent, -1)[:, 0]))
        single = int(steps[0]) if len(steps) == 1 else 0
        assert window.stride(axis) == (None if len(steps) > 1 else single)


@given(windows())
def test_broadcast(pair: Pair):
    window, array = pair
    shape = (2, *(3 if extent == 1 else extent for extent in array.shape))
    np.testing.assert_array_equal(elements(window.broadcast(shape)), np.broadcast_to(array, shape))


@pytest.mark.parametrize(
    ("indices", "runs"),
    [
        (range(0, 24), ((4, 100), (3, 20), (2, 1))),
        (range(6, 18), ((2, 100), (3, 20), (2, 1))),
        (range(8, 12), ((2, 20), (2, 1))),
        (range(9, 10), ()),
        (range(1, 24, 6), ((4, 100),)),
        (range(1, 24, 2), ((4, 100), (3, 20))),
        (range(3, 12, 3), None),
        (range(5, 9), None),
    ],
)  # fmt: skip
def test_slices_of_several_runs(indices: range, runs: tuple[AxisRun, ...] | None):
    window = StridedWindow((((4, 100), (3, 20), (2, 1)),), 7)
    found = window.sliced(0, indices.start, len(indices), indices.step)
    assert (found and found.axes) == (None if runs is None else (runs,))
    if found is not None:
        np.testing.assert_array_equal(elements(found), elements(window)[indices])


def test_merged_axes_are_followed():
    """Batch and heads of a packed projection as one axis, and as two again."""
    packed = StridedWindow.contiguous((16, 197, 3, 12, 64)).transposed([2, 0, 3, 1, 4])
    keys = packed.sliced(0, 1, 1)
    assert keys is not None
    merged = keys.reshaped((192, 197, 64))
    assert merged is not None
    assert merged.stride(0) is None
    split = merged.transposed([0, 2, 1]).reshaped((16, 12, 64, 197))
    assert split is not None
    assert split.offset == 768
    assert [split.stride(axis) for axis in range(4)] == [197 * 2304, 64, 1, 2304]
