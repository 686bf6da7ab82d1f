"""Compiled kernels on a device, and the launches of one executor's schedule with its addresses."""

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from compiler.backends.gpu.driver import Driver, Handle, PreparedLaunch
from compiler.backends.gpu.memory import as_bytes, reserve, upload
from compiler.errors import DeviceError, KernelError
from compiler.schedule import KernelSpec, Launch, Schedule, Task, View
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.verify.control import refuse_control

POINTER_BYTES = 8
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
        refuse_control(schedule, "a GPU")
        for name in dict.fromkeys(task.kernel for task in schedule.tasks):
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


@dataclass(frozen=True, slots=True)
class Site:
    """A place where an allocation's address, plus an offset, is an argument of a call."""

    call: int
    argument: int
    offset: int


BufferOffset = tuple[int, int]
"""An allocation and an offset in it."""


class Pointers:
    """Pointers on the device, one for each place; `of` has the address of each."""

    def __init__(
        self, driver: Driver, addresses: Sequence[int], places: Iterable[BufferOffset]
    ) -> None:
        self._driver, distinct = driver, list(dict.fromkeys(places))
        need = POINTER_BYTES * len(distinct)
        self._block = reserve(driver, need, "pointers to inputs and outputs") if need else 0
        self.of = {
            place: self._block + POINTER_BYTES * number for number, place in enumerate(distinct)
        }
        values = [addresses[allocation] + offset for allocation, offset in distinct]
        if need:
            upload(driver, [(self._block, as_bytes(np.array(values, np.uint64)))])

    def of_buffer(self, allocation: int, address: int) -> list[tuple[int, int]]:
        """The pointers into an allocation, with their values when it is at `address`."""
        inside = [place for place in self.of if place[0] == allocation]
        return [(self.of[place], address + place[1]) for place in inside]

    def close(self) -> None:
        """Give the memory back."""
        if self._block:
            self._driver.free(self._block)
        self._block = 0


class Calls:
    """The launches of a schedule with the addresses of one executor, in schedule order.

    `of_task` holds the indices of each task's calls; `programmatic` says of each call whether its
    kernel waits for its predecessors itself; `sites` has the arguments that each input and output
    appears in. Launches that touch an `indirect` allocation get pointers to pointers instead, so
    they have no sites.
    """

    def __init__(
        self,
        driver: Driver,
        schedule: Schedule,
        functions: Functions,
        addresses: Sequence[int],
        indirect: Set[int] = frozenset(),
    ) -> None:
        self._driver, self._addresses, self._indirect = driver, addresses, indirect
        self.calls: list[PreparedLaunch] = []
        self.programmatic: list[bool] = []
        self.of_task: list[tuple[int, ...]] = []
        self.sites: dict[int, list[Site]] = {
            index: []
            for index, allocation in enumerate(schedule.allocations)
            if allocation.kind in ("input", "output")
        }
        self._pointers = Pointers(driver, addresses, self._places(schedule, functions))
        for task in schedule.tasks:
            entries = zip(functions.of[task.kernel], functions.indirect[task.kernel], strict=True)
            added = [self._add(task, launch, f, second) for (f, launch), second in entries]
            self.of_task.append(tuple(added))

    def _places(self, schedule: Schedule, functions: Functions) -> list[BufferOffset]:
        """The places whose pointers indirect launches read."""
        return [
            (view.allocation, view.offset)
            for task in schedule.tasks
            for second, (_, launch) in zip(
                functions.indirect[task.kernel], functions.of[task.kernel], strict=True
            )
            if self._is_indirect(second, arguments_of(task, launch))
            for view in arguments_of(task, launch)
        ]

    def _is_indirect(self, second: Handle | None, views: Sequence[View]) -> bool:
        return second is not None and any(view.allocation in self._indirect for view in views)

    def _add(self, task: Task, launch: Launch, function: Handle, second: Handle | None) -> int:
        views, index = arguments_of(task, launch), len(self.calls)
        extents, indirect = [view.nbytes for view in views], self._is_indirect(second, views)
        if indirect:
            function = second
            arguments = [self._pointers.of[view.allocation, view.offset] for view in views]
        else:
            arguments = [self._addresses[view.allocation] + view.offset for view in views]
            for argument, view in enumerate(views):
                if view.allocation in self.sites:
                    self.sites[view.allocation].append(Site(index, argument, view.offset))
        shape = launch.grid, launch.block, launch.shared_bytes
        self.calls.append(self._driver.call(function, *shape, arguments, extents, indirect))
        self.programmatic.append(launch.programmatic)
        return index

    def touching(self, allocation: int) -> tuple[int, ...]:
        """The calls that take an input or output as an argument."""
        return tuple(dict.fromkeys(site.call for site in self.sites[allocation]))

    def move(self, allocation: int, address: int) -> list[tuple[int, int]]:
        """Give every call that touches an input or output its new address.

        Returns the pointers to write before the next run: the address and value of each.
        """
        for site in self.sites[allocation]:
            self.calls[site.call].set_argument(site.argument, address + site.offset)
        return self._pointers.of_buffer(allocation, address)

    def close(self) -> None:
        """Give the pointers' memory back."""
        self._pointers.close()


def arguments_of(task: Task, launch: Launch) -> list[View]:
    """The buffers of a launch of a task, in the order of its parameters."""
    buffers = task.reads + task.writes
    return [buffers[index] for index in launch.args]


def has_indirect_entries(schedule: Schedule, functions: Functions, allocation: int) -> bool:
    """Whether every launch that touches an allocation has a second entry point."""
    return all(
        second is not None
        for task in schedule.tasks
        for second, (_, launch) in zip(
            functions.indirect[task.kernel], functions.of[task.kernel], strict=True
        )
        if any(view.allocation == allocation for view in arguments_of(task, launch))
    )
