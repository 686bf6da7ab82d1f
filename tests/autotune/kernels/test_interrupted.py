"""A candidate whose run would not end in time is interrupted, and tuning goes on without it."""

from time import perf_counter

import numpy as np
import pytest

from compiler.autotune.kernels import cpu_bench
from compiler.autotune.kernels.cpu_bench import CandidateRunner
from compiler.backends.cpu.bound import BoundKernel
from compiler.errors import KernelError
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.schedule.kernels import KernelSpec
from tests.backends.objects import LANES, mix

SLOW_TURNS = 20_000_000
"""Turns of a loop that take about 10 ms."""


def group() -> Group:
    """An addition with the operands of the kernels `mix`."""
    infos = (TensorInfo("int64", (LANES,)),) * 3
    return Group("kernel", infos, 2, (False, False), {}, (Node("Add", {}, (0, 1), (2,)),), (2,))


def bound(spec: KernelSpec) -> tuple[BoundKernel, list[np.ndarray]]:
    """A kernel on numbers, and its buffers."""
    arrays = [np.arange(LANES, dtype=np.int64), np.ones(LANES, np.int64), np.zeros(LANES, np.int64)]
    return BoundKernel(spec, arrays[:2], arrays[2:]), arrays


def test_a_run_within_its_time_computes_everything():
    for blocks in (1, 3, LANES):
        kernel, (x, y, result) = bound(mix(f"whole{blocks}", blocks))
        assert kernel.run_within(60.0)
        np.testing.assert_array_equal(result, 3 * x + y + 1)


def test_a_run_that_would_take_longer_is_interrupted():
    kernel, (*_, result) = bound(mix("interrupted", LANES, SLOW_TURNS))
    start = perf_counter()
    assert not kernel.run_within(0.0)
    assert np.count_nonzero(result) < LANES, "all blocks ran"
    first = perf_counter() - start
    assert kernel.run_within(1000 * first)


def test_a_candidate_that_does_not_end_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu_bench, "MOST_SECONDS", 0.0)
    runner = CandidateRunner(8)
    with pytest.raises(KernelError, match="a run takes more than 0 s"):
        runner.measure("key", group(), mix("left_out", LANES, SLOW_TURNS))
    monkeypatch.setattr(cpu_bench, "MOST_SECONDS", 60.0)
    time = runner.measure("key", group(), mix("measured", 1))
    assert time is not None, "the interrupted run's result became the reference"
    assert time > 0
