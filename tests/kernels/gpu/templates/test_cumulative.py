"""CumSum on the emulator against numpy in float64, and the steps that its launches take."""

from math import prod

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.kernels.gpu.templates.cumulative.template import Config, Problem
from compiler.kernels.group import Node
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Array, run_twice
from tests.kernels.gpu.of_template import BY_NAME, kernel_in, problem_in
from tests.kernels.test_cumulative import FLOATS, INTEGERS, compare, draw, group_of

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp32")
SMALL = Config(32, 2)


def check(
    x: Array,
    axis: int,
    exclusive: bool = False,
    reverse: bool = False,
    config: Config | None = None,
) -> int:
    """Run a CumSum and compare it with numpy; returns the number of its launches."""
    group = group_of(x, axis, exclusive, reverse)
    kernel = kernel_in("cumulative", group, TARGET, config)
    assert kernel is not None
    (result,) = run_twice(kernel, group, [x])
    compare(result, x, axis, exclusive, reverse)
    return len(kernel.launches)


def test_every_dtype():
    for dtype in (*FLOATS, *INTEGERS):
        check(draw((3, 40, 5), dtype), 1, len(dtype) % 2 == 0, "u" in dtype, Config(64, 2))


@settings(max_examples=5, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 100), st.integers(1, 40)),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)
@example((1, 1, 1), 1, True, False)
@example((50, 3, 1), 1, False, True)
def test_any_shape_and_axis(shape: tuple[int, int, int], axis: int, exclusive: bool, reverse: bool):
    check(draw(shape, "float32"), axis, exclusive, reverse)


@pytest.mark.parametrize(
    ("shape", "exclusive", "reverse"),
    [((1, 1003, 1), False, False), ((2, 400, 3), True, True), ((1, 160, 70), True, False)],
)
def test_chunks_of_long_rows(shape: tuple[int, int, int], exclusive: bool, reverse: bool):
    for dtype in ("float32", "float16", "int64"):
        assert check(draw(shape, dtype), 1, exclusive, reverse, SMALL) == 2


def test_a_block_has_several_tiles_of_a_chunk():
    problem = problem_in("cumulative", group_of(draw((1, 20_000), "float32"), 1), TARGET)
    assert problem is not None
    division = problem.division(SMALL, TARGET)
    assert division.chunk > division.steps
    check(draw((1, 20_000), "float32"), 1, config=SMALL)


def test_an_infinity_changes_nothing_before_it():
    x = draw((1, 2000), "float32")
    x[0, 700], x[0, 1500] = numpy.inf, numpy.nan
    check(x, 1, config=SMALL)
    check(x, 1, exclusive=True, reverse=True, config=SMALL)


def test_a_row_of_negative_zeros_keeps_its_sign():
    x = -numpy.zeros((1, 300), "float32")
    group = group_of(x, 1)
    kernel = kernel_in("cumulative", group, TARGET, SMALL)
    assert kernel is not None
    assert numpy.signbit(run_twice(kernel, group, [x])[0]).all()


sizes = st.floats(0, 3).map(lambda digits: int(10**digits))


@settings(max_examples=200, deadline=None)
@given(sizes, st.floats(0, 7).map(lambda digits: int(10**digits)), sizes, st.booleans())
@example(1, 10**7, 1, True)
@example(1, 10**5, 3, False)
def test_the_steps_are_proportional(outer: int, length: int, inner: int, large: bool):
    config = Config(256, 8) if large else Config(64, 2)
    problem = Problem(outer, length, inner, Node("CumSum", {"axis": 0}, (0,), (1,)), "float32")
    division = problem.division(config, TARGET)
    assert division.chunks * division.chunk >= length > (division.chunks - 1) * division.chunk
    assert division.blocks * division.lanes >= problem.rows
    # chunks are read twice; half of a block's lanes or steps may be idle, or all but one of ITEMS
    assert division.work() <= (9 + config.items) * problem.rows * length + 2 * config.tile


def test_no_thread_scans_a_long_row_alone():
    for shape, axis in (((1, 10**6), 1), ((2048, 64), 0), ((64, 512, 64), 1)):
        x = numpy.broadcast_to(numpy.float32(0), shape)
        kernel = kernel_in("cumulative", group_of(x, axis), TARGET)
        assert kernel is not None
        threads = min(prod(launch.grid) * prod(launch.block) for launch in kernel.launches)
        assert x.size / threads <= 64


def test_an_estimate_grows_with_the_rows():
    template = BY_NAME["cumulative"]
    few, many = (
        problem_in("cumulative", group_of(numpy.broadcast_to(numpy.float32(0), shape), 1), TARGET)
        for shape in ((8, 100), (8, 10**7))
    )
    assert template.estimate_ns(few, Config(64, 4), TARGET) < 8e3
    assert template.estimate_ns(many, Config(256, 8), TARGET) > 100e3
