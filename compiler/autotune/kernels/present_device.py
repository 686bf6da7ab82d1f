"""The device that a compilation's kernels are measured on, and their tuning there; needs TVM."""

from collections.abc import Sequence

from compiler.autotune.kernels.cpu_bench import HostCpu, weight_bytes
from compiler.autotune.kernels.device_bench import GpuDevice
from compiler.autotune.kernels.plan import TuningLimits
from compiler.autotune.kernels.while_compiling import tune_groups
from compiler.backends.gpu.driver import Driver
from compiler.kernels.building import KernelCache
from compiler.kernels.group import Group
from compiler.schedule.choices import TuningRecord
from compiler.target.target import Target, parse_cpu, parse_gpu


def tune_here(
    driver: Driver | None,
    groups: Sequence[tuple[Group, int]],
    target: Target,
    cache: KernelCache | None,
    limits: TuningLimits,
) -> tuple[TuningRecord, bool]:
    """Measure kernels on a GPU's driver or on this CPU, and whether nothing is left to measure."""
    if target.is_gpu:
        assert driver is not None, "a GPU's kernels are measured on a device"
        device = GpuDevice(driver, parse_gpu(str(target)))
        return tune_groups(device, groups, device.target, limits)
    host = HostCpu(parse_cpu(str(target)), cache, weight_bytes(groups))
    return tune_groups(host, groups, host.target, limits)
