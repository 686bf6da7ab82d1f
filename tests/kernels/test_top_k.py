"""TopK on the CPU: against numpy's stable sort, and the steps that it takes."""

from dataclasses import replace
from math import log2

import ml_dtypes
import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.ops.selection import top_k
from compiler.kernels.ops.selection.top_k import TopKRows
from compiler.target.target import parse_target
from tests.kernels.harness import evaluate, single
from tests.kernels.step_counts import steps_of

Array = numpy.ndarray

FLOATS = ("float16", "float32", "float64", "bfloat16")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Elements with many ties, and the extremes of their dtype: NaN, infinities, zeros."""
    rng = numpy.random.default_rng(seed)
    kind = numpy.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    few = rng.integers(0, 9, shape).astype(kind)
    if dtype in FLOATS:
        extremes = numpy.array([numpy.nan, -numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.0, -3.5])
    else:
        limits = numpy.iinfo(dtype)
        extremes = numpy.array([limits.min, limits.max, limits.max - 1, limits.min + 1], kind)
    chosen = rng.integers(0, len(extremes), shape)
    return numpy.where(rng.random(shape) < 0.4, extremes.astype(kind)[chosen], few)


def order(x: Array, axis: int, largest: bool) -> Array:
    """Positions in order, the first of equals first; NaN counts as the largest."""
    x = x.astype("float64") if x.dtype.name in FLOATS else x
    if not largest:
        return numpy.argsort(x, axis, kind="stable")
    positions = numpy.argsort(numpy.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - numpy.flip(positions, axis)


def expected(x: Array, count: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """The values and the positions of a TopK."""
    first = numpy.take(order(x, axis, largest), numpy.arange(count), axis)
    return numpy.take_along_axis(x, first, axis), first


def group_of(x: Array, count: int, axis: int = -1, largest: bool = True) -> Group:
    """The group of a TopK."""
    axis %= x.ndim
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    infos = [TensorInfo(x.dtype.name, shape), TensorInfo("int64", shape)]
    attributes = {"axis": axis, "largest": int(largest)}
    return single("TopK", [x, numpy.array([count])], infos, attributes, constants=(1,))[0]


def of_length(length: int, count: int, rows: int = 1) -> Group:
    """The group of a TopK of rows, whose elements take no memory."""
    x = numpy.broadcast_to(numpy.float32(0), (rows, length))
    return group_of(x, count)


def check(x: Array, count: int, axis: int = -1, largest: bool = True) -> None:
    """Compare a TopK with numpy bit by bit."""
    results = evaluate(group_of(x, count, axis, largest), [x])
    for result, wanted in zip(results, expected(x, count, axis, largest), strict=True):
        assert result.tobytes() == numpy.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_extremes_and_ties_by_radix(dtype: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TopKRows, "by_heap", False)
    check(draw((3, 61, 2), dtype), 61, 1, len(dtype) % 2 == 0)


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint32", "int64", "uint64"])
def test_extremes_and_ties_by_heap(dtype: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TopKRows, "by_heap", True)
    check(draw((3, 61, 2), dtype), 20, 1, len(dtype) % 2 == 1)


@settings(max_examples=3, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 300), st.integers(1, 3)),
    st.integers(0, 2),
    st.floats(0, 1),
    st.booleans(),
)
@example((1, 1, 1), 1, 1.0, True)
@example((1, 2000, 1), 1, 1.0, False)
@example((2, 130, 1), 1, 0.01, False)
def test_any_shape_axis_and_count(
    shape: tuple[int, int, int], axis: int, share: float, largest: bool
):
    count = max(1, int(share * shape[axis]))
    check(draw(shape, "float32", shape[1]), count, axis, largest)


@pytest.mark.parametrize(("rows", "length", "count"), [(2, 1001, 3)])
def test_parts_of_a_row_are_selected_first(
    rows: int, length: int, count: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(top_k, "PART", 100)
    assert TopKRows(rows, length, 1, count, "float32").parts > 1
    check(draw((rows, length), "float32"), count)
    check(draw((rows, length), "int16"), count, largest=False)


def test_sorted_rows_in_either_direction():
    ascending = numpy.arange(1000, dtype="float32").reshape(1, -1)
    for x in (ascending, ascending[:, ::-1].copy(), numpy.zeros((1, 1000), "float32")):
        check(x, 40)
        check(x, 1000)


@pytest.mark.parametrize("which", [0, 1])
def test_a_result_that_nothing_uses(which: int):
    x = draw((1, 6000), "float32")
    group = group_of(x, 6000)
    (result,) = evaluate(replace(group, outputs=(group.outputs[which],)), [x])
    assert result.tobytes() == expected(x, 6000, 1, True)[which].tobytes()


def test_many_rows_share_the_workspaces_of_a_few_blocks():
    spec = build_kernel(of_length(64, 64, 100_000), parse_target("cpu"))
    assert spec.launches[0].grid[0] <= top_k.SORTING_BLOCKS
    assert sum(spec.workspaces) <= top_k.SORTING_BLOCKS * (2 * 8 * 64 + 4 * 4 * 256)
    for count in (9, 1):
        check(draw((150, 9), "float32"), count)


lengths = st.floats(1, 5).map(lambda digits: int(10**digits))


@settings(max_examples=40, deadline=None)
@given(lengths, st.floats(0, 1), st.sampled_from(["float32", "float64", "int8", "float16"]))
@example(100_000, 1.0, "float32")
@example(32_000, 1.0, "float64")
@example(1_000_000, 0.1, "float32")
def test_the_steps_are_at_most_n_log_n(length: int, part: float, dtype: str):
    count = max(1, int(length**part))
    x = numpy.broadcast_to(numpy.zeros((), dtype), (1, length))
    steps = steps_of(group_of(x, count))
    assert steps <= 40 * length * log2(length) + 40 * 8 * 256


def test_steps_are_counted_by_loops():
    # 2 statements for each of 3 rows x 100 elements at least; a radix sort has 4 passes of them
    counted = steps_of(of_length(100, 100, 3))
    assert 4 * 300 < counted < 100 * 300 + 3 * 4 * 256 * 10
    assert steps_of(of_length(200_000, 200_000)) < 2.2 * steps_of(of_length(100_000, 100_000))
