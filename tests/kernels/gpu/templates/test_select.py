"""TopK of few elements on the emulator against numpy's stable sort."""

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.kernels.building.select import best
from compiler.kernels.gpu.templates.select.template import Config
from compiler.kernels.gpu.templates.top_k.template import Problem
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Array, run_twice
from tests.kernels.gpu.of_template import BY_NAME, kernel_in, problem_in
from tests.kernels.test_top_k import FLOATS, INTEGERS, draw, expected, group_of, of_length

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp32")
WARP = Config(32)


def check(
    x: Array, count: int, axis: int = -1, largest: bool = True, config: Config | None = None
) -> None:
    """Compare a TopK with numpy bit by bit."""
    group = group_of(x, count, axis, largest)
    kernel = kernel_in("select", group, TARGET, config)
    assert kernel is not None
    results = run_twice(kernel, group, [x])
    for result, wanted in zip(results, expected(x, count, axis, largest), strict=True):
        assert result.tobytes() == numpy.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("config", [WARP, Config(256)])
def test_extremes_and_ties_of_every_dtype(config: Config):
    for number, dtype in enumerate([*FLOATS, *INTEGERS]):
        check(draw((2, 61, 2), dtype), 7 + number, 1, number % 2 == 0, config)


@settings(max_examples=4, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 400), st.integers(1, 3)),
    st.integers(0, 2),
    st.floats(0, 1),
    st.booleans(),
)
@example((3, 300, 1), 1, 1.0, True)
@example((1, 1, 1), 0, 1.0, False)
def test_any_shape_axis_and_count(
    shape: tuple[int, int, int], axis: int, share: float, largest: bool
):
    count = max(1, int(share * shape[axis]))
    check(draw(shape, "int16", shape[1]), count, axis, largest, WARP)


@pytest.mark.parametrize("last", [0, 1, 37, 199])
def test_of_equal_elements_the_first_are_selected(last: int):
    x = numpy.zeros((3, 200), "float32")
    x[:, last] = 1
    check(x, 20, config=WARP)
    check(x, 20, largest=False, config=Config(128))


def problem_of(rows: int, length: int, count: int) -> Problem:
    """The problem of a TopK of contiguous rows."""
    return problem_in("select", of_length(length, count, rows), TARGET)


@pytest.mark.parametrize(("rows", "length", "count"), [(40, 1000, 20), (1, 8400, 300)])
def test_few_elements_are_selected(rows: int, length: int, count: int):
    check(draw((rows, length), "float32"), count)


@pytest.mark.parametrize(("length", "count"), [(8, 2), (32, 32), (31, 5), (1, 1), (2, 1)])
def test_a_warp_sorts_short_rows_at_once(length: int, count: int):
    """As those of a router: an element for each lane, of every type, with ties and NaN."""
    for dtype in (*FLOATS, *INTEGERS):
        check(draw((37, length, 2), dtype), count, 1, count % 2 == 0, WARP)
    assert best(of_length(length, count, 16), TARGET).template is BY_NAME["select"]


def test_registers_hold_a_row():
    template = BY_NAME["select"]
    (config, *_) = template.configs(problem_of(1, 1025, 5), TARGET)
    assert config.sharers > 32
    longer = of_length(40_000, 5, 1)
    assert not [*template.match(longer, TARGET)]
    assert best(longer, TARGET).template is BY_NAME["top_k"]
    assert not [*template.match(of_length(9000, 2000, 1), TARGET)]


def test_bounds_of_the_estimate():
    template = BY_NAME["select"]
    few, many = (
        min(template.estimate_ns(p, c, TARGET) for c in template.configs(p, TARGET))
        for p in (problem_of(8, 1000, 50), problem_of(8192, 1000, 50))
    )
    assert few < many / 2
