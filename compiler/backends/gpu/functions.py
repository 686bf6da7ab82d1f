"""Compiled kernels on a device."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from compiler.backends.gpu.driver import Driver, Handle
from compiler.errors import DeviceError, KernelError
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Schedule, Task, View
from compiler.target.devices import DEFAULT_SHARED_BYTES

SMEM_CARVEOUT = 75
"""Percent of an SM's L1 that is shared memory where kernels run concurrently.

Measured on an H200: NASNet-mobile, PNASNet, Inception-v3 and HRNet take 0.96 of their time; 50 and
100 were not better in the mean.
"""


class Functions:
    """The functions of every kernel that a schedule launches, loaded once for a device.

    `indirect` holds, for each launch of `of`, its second entry point, or None.
    """

    def __init__(
        self, driver: Driver, schedule: Schedule, kernels: Mapping[str, KernelSpec]
    ) -> None:
        self._driver = driver
        self._modules: list[Handle] = []
        self.of: dict[str, tuple[tuple[Handle, Launch], ...]] = {}
        self.indirect: dict[str, tuple[Handle | None, ...]] = {}
        for name in dict.fromkeys(task.kernel for task in schedule.all_tasks):
            if name not in kernels:
                raise KernelError(f"the kernel {name!r} is missing: compile the model again")
            self._load(kernels[name])

    def _load(self, kernel: KernelSpec) -> None:
        if kernel.language != self._driver.language:
            raise DeviceError(
                f"kernel {kernel.name!r} is {kernel.language} code, this device runs "
                f"{self._driver.language}: compile the model for this target"
            )
        try:
            module = self._driver.load_module(kernel.code)
            self._modules.append(module)
            launches = kernel.launches
            self.of[kernel.name] = tuple((self._function(module, x), x) for x in launches)
            self.indirect[kernel.name] = tuple(
                self._function(module, replace(x, symbol=x.indirect)) if x.indirect else None
                for x in launches
            )
        except DeviceError as error:
            raise DeviceError(f"kernel {kernel.name!r}: {error}") from error

    def _function(self, module: Handle, launch: Launch) -> Handle:
        driver = self._driver
        function = driver.function(module, launch.symbol)
        used = driver.function_info(function)
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        if threads > used.threads_per_block:
            limit = used.threads_per_block
            raise DeviceError(f"{launch.symbol}: {threads} threads a block, at most {limit} fit")
        shared = used.shared_bytes + launch.shared_bytes
        if shared > driver.device.shared_bytes_per_block:
            limit = driver.device.shared_bytes_per_block
            raise DeviceError(f"{launch.symbol}: {shared} bytes of shared memory, {limit} exist")
        if shared > DEFAULT_SHARED_BYTES:
            driver.allow_shared(function, launch.shared_bytes)
        return function

    def set_smem_carveout(self) -> None:
        """Set the preferred shared-memory carveout of every kernel.

        An SM runs blocks of two kernels at a time only if their carveouts are equal.
        """
        for name, launches in self.of.items():
            for function in (*(first for first, _ in launches), *self.indirect[name]):
                if function is not None:
                    self._driver.set_smem_carveout(function, SMEM_CARVEOUT)

    def close(self) -> None:
        """Unload every module."""
        self._driver.make_current()
        for module in self._modules:
            self._driver.unload_module(module)
        self._modules.clear()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


def arguments_of(task: Task, launch: Launch) -> list[View]:
    """The buffers of a launch of a task, in the order of its parameters."""
    buffers = task.reads + task.writes
    return [buffers[index] for index in launch.args]
