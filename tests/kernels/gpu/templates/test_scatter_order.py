"""The order of updates on the emulator against a stable sort."""

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.kernels.gpu.templates.scatter_order import template as problems
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Array, run_twice
from tests.kernels.gpu.of_template import BY_NAME, kernel_in, problem_in
from tests.kernels.harness import single

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp32")


def indices_of(updates: int, slots: int, dtype: str = "int64", most: int = 0) -> Array:
    """Indices from both ends, some outside; with `most`, of the first slots only."""
    rng = numpy.random.default_rng(updates)
    limit = most or slots
    return rng.integers(-limit - 1, limit + 2, updates).astype(dtype)


def group_of(indices: Array, slots: int) -> Group:
    """The group of one operator."""
    infos = [TensorInfo("int32", (slots + 1,)), TensorInfo("int32", indices.shape)]
    return single("ScatterOrder", [indices], infos, {"slots": slots})[0]


def check(indices: Array, slots: int) -> None:
    """Compare the starts and the order of some indices with those of a stable sort."""
    group = group_of(indices, slots)
    kernel = kernel_in("scatter_order", group, TARGET)
    assert kernel is not None
    starts, order = run_twice(kernel, group, [indices])
    named = [min(max(i + slots if i < 0 else i, 0), slots - 1) for i in indices.tolist()]
    assert order.tolist() == sorted(range(len(named)), key=named.__getitem__)
    counts = numpy.bincount(named, minlength=slots)
    assert starts.tolist() == [0, *numpy.cumsum(counts)]


@settings(max_examples=3, deadline=None)
@given(st.integers(1, 700), st.integers(1, 400), st.sampled_from(["int32", "int64"]))
@example(40, 1, "int64")
@example(1, 300, "int32")
def test_updates_are_sorted_by_their_slots(updates: int, slots: int, dtype: str):
    check(indices_of(updates, slots, dtype), slots)


def test_the_group_may_compute_its_indices():
    pairs = numpy.random.default_rng(0).integers(-40, 40, (2, 300))
    infos = [TensorInfo("int64", (2, 300)), TensorInfo("int64", ()), TensorInfo("int64", (300,))]
    infos += [TensorInfo("int32", (41,)), TensorInfo("int32", (300,))]
    operators = (
        Node("Gather", {"axis": 0}, (0, 1), (2,)),
        Node("ScatterOrder", {"slots": 40}, (2,), (3, 4)),
    )
    group = Group("both", tuple(infos), 1, (False,), {1: numpy.array(1)}, operators, (3, 4))
    kernel = kernel_in("scatter_order", group, TARGET)
    assert kernel is not None
    _, order = run_twice(kernel, group, [pairs])
    assert order.tolist() == numpy.argsort(pairs[1] % 40, kind="stable").tolist()


def test_several_chunks_of_indices():
    check(indices_of(11_000, 150), 150)


def test_a_block_has_many_slots():
    check(indices_of(90, 132 * 70), 132 * 70)


@pytest.mark.parametrize(("updates", "slots"), [(4000, 200), (11_000, 3)])
def test_slots_with_many_updates_are_sorted_by_counts(updates: int, slots: int):
    check(indices_of(updates, slots, most=1), slots)


@pytest.mark.parametrize(
    ("slots", "buckets", "most"), [(300, 8, 0), (3600, 400, 0), (150, 128, 1), (2, 128, 0)]
)
def test_many_updates_are_sorted_in_buckets(
    slots: int, buckets: int, most: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(problems, "MOST_READ", 11_000)
    monkeypatch.setattr(problems, "BUCKETS", buckets)
    indices = indices_of(11_100, slots, "int32", most)
    problem = problem_in("scatter_order", group_of(indices, slots), TARGET)
    assert problem is not None
    assert problem.in_buckets
    assert problem.threads == {8: 128, 400: 512}.get(buckets, 128)
    check(indices, slots)


def test_a_million_updates_have_large_blocks_unless_their_counters_do_not_fit():
    for slots, threads in ((1000, 1024), (1_000_000, 512)):
        problem = problems.Problem(Node("ScatterOrder", {}, (0,), (1, 2)), "int64", 10**6, slots)
        assert problem.threads == threads


def test_an_estimate_grows_with_the_updates():
    few, many = (
        problem_in("scatter_order", group_of(indices_of(n, 100), 100), TARGET)
        for n in (1000, 100_000)
    )
    template = BY_NAME["scatter_order"]
    assert template.estimate_ns(many, None, TARGET) > template.estimate_ns(few, None, TARGET)
