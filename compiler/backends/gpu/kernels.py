"""Compiled kernels on a device, and the launches of one executor's schedule with its addresses."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from compiler.backends.gpu.driver import Call, Driver, Handle
from compiler.errors import DeviceError, KernelError
from compiler.schedule import KernelSpec, Launch, Schedule, Task

DEFAULT_SHARED_BYTES = 48 << 10
"""Dynamic shared memory that every function may use without asking."""


class Functions:
    """The functions of every kernel that a schedule launches, loaded once for a device."""

    def __init__(
        self, driver: Driver, schedule: Schedule, kernels: Mapping[str, KernelSpec]
    ) -> None:
        self._driver = driver
        self._modules: list[Handle] = []
        self.of: dict[str, tuple[tuple[Handle, Launch], ...]] = {}
        for name in dict.fromkeys(task.kernel for task in schedule.tasks):
            if name not in kernels:
                raise KernelError(f"the kernel {name!r} is missing: compile the model again")
            self.of[name] = self._load(kernels[name])

    def _load(self, kernel: KernelSpec) -> tuple[tuple[Handle, Launch], ...]:
        if kernel.language != self._driver.language:
            raise DeviceError(
                f"kernel {kernel.name!r} is {kernel.language} code, this device runs "
                f"{self._driver.language}: compile the model for this target"
            )
        try:
            module = self._driver.load_module(kernel.code)
            self._modules.append(module)
            return tuple((self._function(module, launch), launch) for launch in kernel.launches)
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

    def close(self) -> None:
        """Unload every module."""
        self._driver.make_current()
        for module in self._modules:
            self._driver.unload_module(module)
        self._modules.clear()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


@dataclass(frozen=True, slots=True)
class Site:
    """A place where an allocation's address, plus an offset, is an argument of a call."""

    call: int
    argument: int
    offset: int


class Calls:
    """The launches of a schedule with the addresses of one executor, in schedule order.

    `of_task` holds the indices of each task's calls; `sites` where each input and output appears.
    """

    def __init__(
        self, driver: Driver, schedule: Schedule, functions: Functions, addresses: Sequence[int]
    ) -> None:
        self.calls: list[Call] = []
        self.of_task: list[tuple[int, ...]] = []
        self.sites: dict[int, list[Site]] = {
            index: []
            for index, allocation in enumerate(schedule.allocations)
            if allocation.kind in ("input", "output")
        }
        for task in schedule.tasks:
            added = [self._add(driver, task, f, a, addresses) for f, a in functions.of[task.kernel]]
            self.of_task.append(tuple(added))

    def _add(
        self, driver: Driver, task: Task, function: Handle, launch: Launch, addresses: Sequence[int]
    ) -> int:
        buffers = task.reads + task.writes
        views = [buffers[index] for index in launch.args]
        index = len(self.calls)
        for argument, view in enumerate(views):
            if view.allocation in self.sites:
                self.sites[view.allocation].append(Site(index, argument, view.offset))
        arguments = [addresses[view.allocation] + view.offset for view in views]
        extents = [view.nbytes for view in views]
        shape = launch.grid, launch.block, launch.shared_bytes
        self.calls.append(driver.call(function, *shape, arguments, extents))
        return index

    def touching(self, allocation: int) -> tuple[int, ...]:
        """The calls that an input or output is an argument of."""
        return tuple(dict.fromkeys(site.call for site in self.sites[allocation]))

    def move(self, allocation: int, address: int) -> None:
        """Let every call that touches an input or output use this address."""
        for site in self.sites[allocation]:
            self.calls[site.call].set_argument(site.argument, address + site.offset)
