"""If and Loop tasks as conditional nodes on a CUDA device."""

from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.backends.cuda.device import device
from compiler.backends.gpu.executable import GpuExecutable
from compiler.errors import DeviceError, ScheduleError
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.target.nvrtc import compile_cuda
from compiler.verify.happens_before import check_schedule
from tests.backends.gpu.controlled import check_random, check_trip_counts, rows
from tests.controlled import controlled_schedules

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def _present() -> None:
    try:
        device()
    except DeviceError as error:
        pytest.skip(str(error))


def target() -> str:
    """The target of the device's kernels."""
    return f"cuda:{device().device.architecture}:fp32"


def compiled(text: str, symbols: tuple[str, ...]) -> bytes:
    """A cubin for the device."""
    del symbols
    return compile_cuda(text, device().device.architecture)


def load(schedule: Schedule, kernels: Mapping[str, KernelSpec]) -> GpuExecutable:
    """An executable on the device, with poisoned buffers."""
    return GpuExecutable.load(device(), schedule, kernels, {}, poison=True)


@settings(max_examples=100, deadline=None)
@given(controlled_schedules(), st.integers(0, 2**32))
def test_random_nested_schedules_compute_what_their_bodies_do(schedule: Schedule, seed: int):
    try:
        check_schedule(schedule)
    except ScheduleError:
        assume(False)
    check_random(schedule, seed, load, target(), compiled)


def test_a_loop_runs_any_number_of_times():
    check_trip_counts(load, target(), compiled)


@pytest.mark.parametrize("backwards", [(False, False), (False, True), (True, False), (True, True)])
def test_rows_in_the_arena_are_read_and_written_in_their_direction(backwards: tuple[bool, bool]):
    check_random(rows(backwards), 0, load, target(), compiled)
