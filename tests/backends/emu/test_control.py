"""If and Loop tasks as conditional nodes on the emulator, with poisoned buffers."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.backends.emu.build import BACKEND
from compiler.backends.gpu.executable import GpuExecutable
from compiler.emulator.compile import compile_kernels
from compiler.errors import DeviceError, ScheduleError
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.verify.happens_before import check_schedule
from tests.backends.gpu.controlled import adding, check_random, check_trip_counts, kernels_of, rows
from tests.controlled import controlled_schedules

TARGET = "emu:sm_90:fp32"


def load(schedule: Schedule, kernels: Mapping[str, KernelSpec], **options: Any) -> GpuExecutable:
    """An executable on the emulator."""
    found = BACKEND.load(schedule, kernels, {}, **options)
    assert isinstance(found, GpuExecutable)
    return found


@settings(max_examples=40, deadline=None)
@given(controlled_schedules(), st.integers(0, 2**32))
def test_random_nested_schedules_compute_what_their_bodies_do(schedule: Schedule, seed: int):
    try:
        check_schedule(schedule)
    except ScheduleError:
        assume(False)
    check_random(schedule, seed, partial(load, seed=seed), TARGET, compile_kernels)


def test_a_loop_runs_any_number_of_times():
    check_trip_counts(load, TARGET, compile_kernels)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("backwards", [(False, False), (False, True), (True, False), (True, True)])
def test_rows_in_the_arena_are_read_and_written_in_their_direction(
    backwards: tuple[bool, bool], seed: int
):
    check_random(rows(backwards), seed, load, TARGET, compile_kernels)


@pytest.mark.parametrize(
    "options", [{"mode": "streams"}, {"mode": "subgraphs"}, {"children": True}]
)
def test_what_a_host_would_have_to_decide_is_refused(options: Mapping[str, Any]):
    schedule = adding()
    executable = load(schedule, kernels_of(schedule, TARGET, compile_kernels))
    with pytest.raises(DeviceError, match=r"task 0 is a loop .* cannot run: .* mode 'graph'"):
        executable.executor(**options)
    with pytest.raises(DeviceError, match="mode 'streams' cannot run"):
        executable.timeline()
    executable.close()
