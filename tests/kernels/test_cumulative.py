"""CumSum on the CPU: against numpy in float64, and the steps that it takes."""

import ml_dtypes
import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.ops import cumulative
from compiler.kernels.ops.cumulative import Scan
from tests.kernels.harness import evaluate, single
from tests.kernels.step_counts import steps_of

Array = numpy.ndarray

FLOATS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-15}
"""Dtypes and how far results may be off, relative to the sum of all sizes."""

INTEGERS = ("int32", "int64", "uint32", "uint64")


def draw(shape: tuple[int, ...], dtype: str) -> Array:
    """Elements of both signs; integers that overflow."""
    rng = numpy.random.default_rng(sum(shape))
    if dtype in INTEGERS:
        limits = numpy.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    kind = numpy.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return rng.standard_normal(shape).astype(kind)


def expected(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """The running sums in float64, or of integers modulo 2**bits."""
    wide = x if x.dtype.name in INTEGERS else x.astype("float64")
    wide = numpy.moveaxis(wide, axis, 0)
    wide = wide[::-1] if reverse else wide
    if exclusive:
        wide = numpy.concatenate([numpy.zeros_like(wide[:1]), wide[:-1]])
    with numpy.errstate(invalid="ignore"):
        total = numpy.cumsum(wide, 0, dtype=wide.dtype)
    return numpy.moveaxis(total[::-1] if reverse else total, 0, axis)


def group_of(x: Array, axis: int, exclusive: bool = False, reverse: bool = False) -> Group:
    """The group of a CumSum."""
    attributes = {"exclusive": int(exclusive), "reverse": int(reverse)}
    infos = [TensorInfo(x.dtype.name, x.shape)]
    return single("CumSum", [x, numpy.array(axis)], infos, attributes, constants=(1,))[0]


def compare(result: Array, x: Array, axis: int, exclusive: bool, reverse: bool) -> None:
    """Compare running sums with numpy's."""
    wanted = expected(x, axis, exclusive, reverse)
    if x.dtype.name in INTEGERS:
        numpy.testing.assert_array_equal(result, wanted)
        return
    sizes = numpy.where(numpy.isfinite(x.astype("float64")), numpy.abs(x.astype("float64")), 0)
    bound = FLOATS[x.dtype.name]
    numpy.testing.assert_allclose(
        result.astype("float64"), wanted, rtol=bound, atol=bound * float(sizes.sum(axis).max())
    )


def check(x: Array, axis: int, exclusive: bool = False, reverse: bool = False) -> None:
    """Run a CumSum and compare it with numpy."""
    (result,) = evaluate(group_of(x, axis, exclusive, reverse), [x])
    compare(result, x, axis, exclusive, reverse)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_every_dtype(dtype: str):
    check(draw((3, 40, 5), dtype), 1, len(dtype) % 2 == 0, "u" in dtype)


@settings(max_examples=4, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 70), st.integers(1, 5)),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)
@example((1, 1, 1), 1, True, False)
def test_any_shape_and_axis(shape: tuple[int, int, int], axis: int, exclusive: bool, reverse: bool):
    check(draw(shape, "float32"), axis, exclusive, reverse)


@pytest.mark.parametrize(
    ("shape", "exclusive", "reverse"),
    [((1, 1003, 1), False, False), ((2, 400, 3), True, True), ((1, 160, 70), True, False)],
)
def test_parts_of_long_rows(
    shape: tuple[int, int, int], exclusive: bool, reverse: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cumulative, "PART", 64)
    monkeypatch.setattr(cumulative, "LANES", 32)
    scan = Scan(*shape)
    assert scan.parts > 1
    assert (scan.parts - 1) * scan.part < scan.length <= scan.parts * scan.part
    for dtype in ("float32", "float16", "int32"):
        check(draw(shape, dtype), 1, exclusive, reverse)


def test_an_infinity_changes_nothing_before_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cumulative, "PART", 64)
    x = draw((1, 2000), "float32")
    x[0, 700], x[0, 1500] = numpy.inf, numpy.nan
    check(x, 1)
    check(x, 1, exclusive=True, reverse=True)


def test_a_row_of_negative_zeros_keeps_its_sign():
    (result,) = evaluate(group_of(-numpy.zeros((1, 3), "float32"), 1), [-numpy.zeros((1, 3), "f4")])
    assert numpy.signbit(result).all()


sizes = st.floats(0, 2.5).map(lambda digits: int(10**digits))


@settings(max_examples=30, deadline=None)
@given(sizes, st.floats(1, 5).map(lambda digits: int(10**digits)), sizes)
@example(1, 1_000_000, 1)
@example(1, 2, 300)
@example(20, 3000, 100)
def test_the_steps_are_proportional(outer: int, length: int, inner: int):
    x = numpy.broadcast_to(numpy.float32(0), (outer, length, inner))
    assert steps_of(group_of(x, 1)) <= 8 * x.size + 16 * 16 * 100 * min(inner, cumulative.LANES)
