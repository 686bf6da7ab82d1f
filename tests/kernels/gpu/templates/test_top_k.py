"""TopK on the emulator against numpy's stable sort, and the steps that its launches take."""

from dataclasses import replace
from math import log2, prod

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.kernels.arithmetic import round_up
from compiler.kernels.gpu.templates.top_k.template import (
    ITEMS,
    SAMPLES,
    Config,
    Merging,
    Problem,
    SampledMerge,
    SortRows,
)
from compiler.kernels.group import Node
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Array, run_twice
from tests.kernels.gpu.of_template import BY_NAME, estimated, kernel_in, problem_in
from tests.kernels.test_top_k import FLOATS, INTEGERS, draw, expected, group_of, of_length

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp32")
SMALL = Config(32)
"""Blocks of a warp, whose tiles have 256 entries."""


def check(
    x: Array, count: int, axis: int = -1, largest: bool = True, config: Config | None = None
) -> int:
    """Compare a TopK with numpy bit by bit; returns the number of its launches."""
    group = group_of(x, count, axis, largest)
    kernel = kernel_in("top_k", group, TARGET, config)
    assert kernel is not None
    results = run_twice(kernel, group, [x])
    for result, wanted in zip(results, expected(x, count, axis, largest), strict=True):
        assert result.tobytes() == numpy.ascontiguousarray(wanted).tobytes()
    return len(kernel.launches)


def test_extremes_and_ties_of_every_dtype():
    for number, dtype in enumerate([*FLOATS, *INTEGERS]):
        largest = number % 2 == 0
        check(draw((2, 61, 2), dtype), 61, 1, largest, SMALL)


@pytest.mark.parametrize(
    ("length", "count", "launches"),
    [
        (256, 256, 1),
        (257, 257, 2),
        (700, 3, 2),
        (700, 128, 3),
        (700, 129, 2),
        (3000, 3000, 2),
        (3073, 3073, 5),
        (3400, 300, 5),
    ],
)
def test_long_rows_are_selected_or_merged(length: int, count: int, launches: int):
    x = draw((2, length), "float32", length)
    assert check(x, count, largest=bool(count % 2), config=SMALL) == launches


@settings(max_examples=4, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 700), st.integers(1, 3)),
    st.integers(0, 2),
    st.floats(0, 1),
    st.booleans(),
)
@example((300, 5, 1), 1, 1.0, True)
@example((1, 1, 1), 0, 1.0, False)
def test_any_shape_axis_and_count(
    shape: tuple[int, int, int], axis: int, share: float, largest: bool
):
    count = max(1, int(share * shape[axis]))
    check(draw(shape, "int16", shape[1]), count, axis, largest, SMALL)


def test_wide_keys_are_merged():
    assert check(draw((1, 600), "float64"), 400, config=SMALL) == 2


@pytest.mark.parametrize("tiles", [3, 12])
def test_any_order_is_merged_at_once(tiles: int):
    """Between two samples may be entries of one tile or of all, and none of some."""
    length = tiles * SMALL.tile
    places = numpy.arange(length, dtype=numpy.int32)
    dealt = places % tiles * SMALL.tile + places // tiles
    early = numpy.where(places % 17, 0, places)
    uneven = places // 16 * 16 + numpy.where(places % 16 == 15, 0, SMALL.tile)
    rows = numpy.stack([places, -places, dealt, numpy.zeros_like(places), early, uneven])
    for count in (length, length - 5, length // 2):
        assert check(rows, count, largest=False, config=SMALL) == 2
    assert check(rows[:, 1:-3], length - 4, config=SMALL) == 2


@settings(max_examples=100, deadline=None)
@given(st.integers(3, 16), st.sampled_from([32, 64, 128, 256]), st.data())
def test_two_tiles_hold_what_is_between_samples(lists: int, threads: int, data: st.DataObject):
    """By regular sampling; the worst is drawn: all of each list but a sample's share."""
    tile = Config(threads).tile
    merge = SampledMerge(lists, 1)
    spacing = tile // SAMPLES
    taken = [data.draw(st.integers(0, spacing - 1)) for _ in range(lists - 1)]
    padded = sum(round_up(entries, ITEMS) for entries in [tile, *taken])
    assert padded <= 2 * tile or not merge.fits(tile)


def test_a_result_that_nothing_uses_is_left_out():
    x = draw((2, 300), "float32")
    whole = group_of(x, 7)
    for which, number in enumerate(whole.outputs):
        group = replace(whole, outputs=(number,))
        kernel = kernel_in("top_k", group, TARGET, SMALL)
        assert kernel is not None
        (result,) = run_twice(kernel, group, [x])
        assert result.tobytes() == expected(x, 7, 1, True)[which].tobytes()


@pytest.mark.parametrize(("rows", "length", "count"), [(40, 600, 600), (1, 3000, 1500)])
def test_the_chosen_config(rows: int, length: int, count: int):
    check(draw((rows, length), "float32"), count)


def problem_of(rows: int, length: int, count: int) -> Problem:
    """The problem of a TopK of contiguous rows."""
    problem = problem_in("top_k", of_length(length, count, rows), TARGET)
    assert problem is not None
    return problem


OPERATOR = Node("TopK", {"k": 1}, (0,), (1, 2))
lengths = st.floats(1, 6).map(lambda digits: int(10**digits))


@settings(max_examples=200, deadline=None)
@given(lengths, st.floats(0, 1), st.integers(1, 64), st.sampled_from([64, 128, 256]))
@example(32_000, 1.0, 8, 256)
@example(2053, 0.875, 14, 256)
@example(1_000_000, 0.5, 1, 64)
def test_the_steps_are_at_most_n_log_n(length: int, part: float, rows: int, threads: int):
    config = Config(threads)
    problem = Problem(rows, length, 1, OPERATOR, "float32", max(1, int(length**part)), True)
    steps = problem.steps(config)
    # the last tile of each row is sorted whole, however little of it there is
    padded = rows * (length * log2(max(2, length)) + config.tile)
    assert steps <= 8 * (padded + config.tile * ITEMS)


@pytest.mark.parametrize(("length", "kind"), [(5000, SampledMerge), (40_000, Merging)])
def test_the_steps_are_those_of_the_grids(length: int, kind: type):
    problem = problem_of(2, length, length)
    config = estimated("top_k", problem, TARGET)
    kernel = SortRows().emit(of_length(length, length, 2), problem, config, TARGET)
    launches = problem.launches(config)
    grids = [prod(launch.grid) for launch in kernel.launches]
    assert grids == [launch.blocks for launch in launches]
    sampled = [2 if isinstance(launch, SampledMerge) else 1 for launch in launches]
    threads = [prod(launch.block) for launch in kernel.launches]
    assert threads == [config.threads * times for times in sampled]
    merges = launches[1:]
    assert merges
    assert all(isinstance(x, kind) and x.blocks * config.tile >= 2 * length for x in merges)


def test_an_estimate_grows_with_the_rows():
    template = BY_NAME["top_k"]
    few, more, many = (
        min(template.estimate_ns(p, c, TARGET) for c in template.configs(p, TARGET))
        for p in (
            problem_of(8, 1000, 50),
            problem_of(8, 32_000, 32_000),
            problem_of(8, 10**6, 10**6),
        )
    )
    assert few < more < many
    assert few < 20e3
    assert more < 60e3
