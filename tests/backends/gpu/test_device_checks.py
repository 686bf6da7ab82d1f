"""The checks for a device; those that make sense there also run on the recording driver."""

from collections.abc import Callable
from typing import Any

import pytest

from compiler.backends.gpu.executable import GpuExecutable
from compiler.errors import DeviceError
from tests.backends.gpu import device_checks, device_measurements
from tests.backends.gpu.cases import Case
from tests.backends.gpu.recording import RecordingDriver

CHECKS = device_checks.CHECKS + device_measurements.CHECKS
NEED_A_GPU = {
    "check_device",
    "check_torch",
    "check_cupy",
    "check_wrong_architecture",
    "check_large_shared_memory",
    "check_overlap",
    "check_choice",
    "check_overhead",
    "check_profile",
}
REPEATED = {
    "check_early_launches": 1,
    "check_replays": 20,
    "check_host_replays": 8,
    "check_two_threads": 10,
}


@pytest.mark.gpu
@pytest.mark.parametrize("check", CHECKS)
def test_on_a_device(check: Callable[[], str]):
    try:
        device_checks.device()
    except DeviceError as error:
        pytest.skip(str(error))
    check()


@pytest.mark.parametrize("check", [check for check in CHECKS if check.__name__ not in NEED_A_GPU])
def test_on_the_recorder(check: Callable[..., str], monkeypatch: pytest.MonkeyPatch):
    driver = RecordingDriver({}, seed=7)

    def load(found: Case, wait: str = "none", **options: Any) -> GpuExecutable:
        del wait
        driver.add_kernels(found.functions)
        specs = found.specs(lambda _: b"\x7fELF")
        return GpuExecutable.load(driver, found.schedule, specs, found.weights, **options)

    monkeypatch.setattr(device_checks, "device", lambda: driver)
    monkeypatch.setattr(device_checks, "load", load)
    name = check.__name__
    if name in ("check_modes", "check_random_delays"):
        device_checks.check_modes(seeds=1)
    else:
        check(*(REPEATED[name],)) if name in REPEATED else check()
