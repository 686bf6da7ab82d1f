"""The emulator's backend: schedules whose kernels are CUDA text, run on the CPU."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import index
from typing import Any

from compiler.backends.base import RunsAllSizes, check_options
from compiler.backends.emu.device import device
from compiler.backends.emu.driver import DEVICE_OPTIONS
from compiler.backends.gpu.executable import GPU_LOAD_OPTIONS, GpuExecutable
from compiler.backends.gpu.sharing import DeviceShare
from compiler.backends.gpu.sized import SizeBuckets
from compiler.backends.memory import Array
from compiler.emulator.compile import compile_kernels, host_compiler, is_present, version
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.verify.all_sizes import SizesCertificate


class EmulatorBackend:
    """Implements `compiler.backends.base.Backend`."""

    name = "emu"

    def requirements(self, target: str) -> dict[str, Any]:
        """The engine's version that kernels are built for; another engine needs them rebuilt."""
        return {"engine": version()}

    def check(self, requirements: Mapping[str, Any]) -> None:
        """Raise DeviceError if kernels must be built again and there is no compiler."""
        if requirements["engine"] != version():
            host_compiler()

    def check_options(self, options: Mapping[str, Any]) -> None:
        check_options(options, {**GPU_LOAD_OPTIONS, **DEVICE_OPTIONS}, "the target emu")

    def sharing(self) -> dict[str, Any]:
        """The option by which modules share weights and an arena."""
        return {"share": DeviceShare()}

    def for_sizes(
        self, certificate: SizesCertificate, weights: Mapping[str, Array], **options: Any
    ) -> SizeBuckets:
        """A symbolic schedule, to be loaded for sizes; `options` are those of `load`."""
        self.check_options(options)
        return SizeBuckets(certificate, weights, partial(self.load, **options))

    def load(
        self,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        weights: Mapping[str, Array],
        **options: Any,
    ) -> GpuExecutable:
        """Load on the emulated device, with poisoned buffers.

        `seed`, `warp` (32 or 64) and `threads` (of the host, 0 for all) are those of the device
        from now on; other options are those of `GpuExecutable`.
        """
        self.check_options(options)
        chosen = {name: index(options.pop(name)) for name in DEVICE_OPTIONS if name in options}
        built = {name: runnable(kernel) for name, kernel in kernels.items()}
        driver = device(next((kernel.code for kernel in built.values()), None))
        if chosen:
            driver.configure(**chosen)
        options.setdefault("poison", True)
        return GpuExecutable.load(driver, schedule, built, weights, **options)


def runnable(kernel: KernelSpec) -> KernelSpec:
    """The kernel itself, or a new build of its source if it was built for another engine."""
    if is_present(kernel.code):
        return kernel
    symbols = [symbol for launch in kernel.launches for symbol in launch.symbols]
    return replace(kernel, code=compile_kernels(kernel.source, symbols))


BACKEND: RunsAllSizes = EmulatorBackend()
