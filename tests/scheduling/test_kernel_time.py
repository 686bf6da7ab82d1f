"""Estimates of kernels that were not measured grow with their work and know what fits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.schedule.kernels import KernelSpec, Launch
from compiler.scheduling.kernel_time import (
    CONTRACTION_RATES,
    OTHER_RATES,
    estimated_time,
    rates_of,
    task_demand,
)
from compiler.scheduling.simulator import TaskDemand
from compiler.target.devices import DEVICES, H200


def kernel(blocks: int = 64, *, flops: int = 0, nbytes: int = 0, shared: int = 0) -> KernelSpec:
    launch = Launch("k", (), (blocks, 1, 1), (128, 1, 1), shared, 40)
    return KernelSpec("k", "cuda", b"", (launch,), (), flops=flops, traffic_bytes=nbytes)


@given(st.integers(1, 5000), st.integers(0, 10**9), st.integers(0, 10**8), st.integers(0, 10**8))
def test_more_work_never_takes_less_time(blocks: int, flops: int, nbytes: int, more: int):
    for device in DEVICES.values():
        small = estimated_time(kernel(blocks, flops=flops, nbytes=nbytes), device)
        assert small >= device.latencies.dependency
        assert estimated_time(kernel(blocks, flops=flops + more, nbytes=nbytes), device) >= small
        assert estimated_time(kernel(blocks, flops=flops, nbytes=nbytes + more), device) >= small


def test_blocks_that_do_not_fit_at_once_take_another_wave():
    shared = 100 << 10
    once = estimated_time(kernel(2 * 132, shared=shared), H200)
    twice = estimated_time(kernel(2 * 132 + 1, shared=shared), H200)
    assert twice - once == pytest.approx(CONTRACTION_RATES.wave)


def test_kernels_that_stage_operands_are_contractions():
    assert rates_of(kernel(shared=64 << 10)) is CONTRACTION_RATES
    assert rates_of(kernel(shared=1 << 10)) is OTHER_RATES


def test_nothing_launched_takes_no_time():
    nothing = KernelSpec("k", "cuda", b"", (), ())
    assert estimated_time(nothing, H200) == 0
    assert task_demand(nothing, 0.0, H200).launches == 0


def test_the_estimate_of_a_template_comes_first():
    found = replace(kernel(8), estimated_ns=1234)
    assert estimated_time(found, H200) == 1234
    assert estimated_time(replace(found, estimated_ns=0), H200) not in (0, 1234)


def test_the_work_of_a_kernel_is_that_of_its_largest_launch():
    small, large = (
        Launch("a", (), (9, 1, 1), (32, 1, 1)),
        Launch("b", (), (8, 2, 1), (64, 2, 1), 5, 40, 7),
    )
    found = replace(kernel(nbytes=11), launches=(small, large))
    assert task_demand(found, 99.0, H200) == TaskDemand(99.0, 16, 128, 40, 12, 11, 2)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        (128, 32, 0, 16),
        (32, 10, 0, 32),
        (128, 204, 215040, 1),
        (512, 32, 8192, 4),
        (128, 64, 41472, 5),
    ],
)
def test_resident_blocks_are_the_drivers(threads: int, registers: int, shared: int, blocks: int):
    assert H200.resident_blocks(threads, registers, shared) == blocks
