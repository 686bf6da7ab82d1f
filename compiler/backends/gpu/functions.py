"""Compiled kernels on a device."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Lock

from compiler.backends.gpu.driver import Driver, FunctionInfo, Handle
from compiler.errors import DeviceError, KernelError
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Schedule, Task, View
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.verify.seals import unsealed_code

SMEM_CARVEOUT = 75
"""Percent of an SM's L1 that is shared memory where kernels run concurrently.

Measured on an H200: NASNet-mobile, PNASNet, Inception-v3 and HRNet take 0.96 of their time; 50 and
100 were not better in the mean.
"""


class LoadedKernel:
    """A kernel's code on a device, unloaded with the last reference to it."""

    def __init__(self, driver: Driver, kernel: KernelSpec) -> None:
        self._driver = driver
        self._module: Handle | None = driver.load_module(kernel.code)
        self._functions: dict[str, tuple[Handle, FunctionInfo]] = {}

    def function(self, symbol: str) -> tuple[Handle, FunctionInfo]:
        """A function and the resources that it takes."""
        if symbol not in self._functions:
            function = self._driver.function(self._module, symbol)
            self._functions[symbol] = function, self._driver.function_info(function)
        return self._functions[symbol]

    def __del__(self) -> None:
        # at the interpreter's end the driver may be gone already
        with suppress(Exception):
            self._driver.make_current()
            self._driver.unload_module(self._module)


class SharedFunctions:
    """The kernels that several schedules launch in different grids, loaded once for a device."""

    def __init__(self, kernels: Iterable[KernelSpec]) -> None:
        self._kernels = {_symbols(kernel): kernel for kernel in kernels if kernel.launches}
        self._loaded: dict[tuple[bool, tuple[str, ...]], LoadedKernel] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[type["SharedFunctions"], tuple[object, ...]]:
        """A copy is loaded anew."""
        return SharedFunctions, (tuple(self._kernels.values()),)

    @property
    def nbytes(self) -> int:
        """Bytes of the kernels' code."""
        return sum(len(kernel.code) for kernel in self._kernels.values())

    def loaded(self, driver: Driver, kernel: KernelSpec, crowded: bool) -> LoadedKernel:
        """The code of a kernel, for crowded schedules or others; raises KernelError for another's.

        A carveout, which crowded schedules set, belongs to a function.
        """
        symbols = _symbols(kernel)
        shared = self._kernels.get(symbols)
        if shared is None or unsealed_code(shared) != unsealed_code(kernel):
            raise KernelError(f"the kernel {kernel.name!r} is not one of those that are shared")
        with self._lock:
            if (crowded, symbols) not in self._loaded:
                self._loaded[crowded, symbols] = LoadedKernel(driver, kernel)
            return self._loaded[crowded, symbols]


def _symbols(kernel: KernelSpec) -> tuple[str, ...]:
    return tuple(symbol for launch in kernel.launches for symbol in launch.symbols)


class Functions:
    """The functions of every kernel that a schedule launches, loaded once for a device.

    `indirect` holds, for each launch of `of`, its second entry point, or None. `load` gives the
    code of a kernel with launches.
    """

    def __init__(
        self,
        driver: Driver,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        load: Callable[[Driver, KernelSpec], LoadedKernel] = LoadedKernel,
    ) -> None:
        self._driver = driver
        self._load_code = load
        self._loaded: list[LoadedKernel] = []
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
            launches = kernel.launches
            code = self._load_code(self._driver, kernel) if launches else None
            self.of[kernel.name] = tuple((self._function(code, x), x) for x in launches)
            self.indirect[kernel.name] = tuple(
                self._function(code, replace(x, symbol=x.indirect)) if x.indirect else None
                for x in launches
            )
            self._loaded += [code] if code else []
        except DeviceError as error:
            raise DeviceError(f"kernel {kernel.name!r}: {error}") from error

    def _function(self, code: LoadedKernel | None, launch: Launch) -> Handle:
        assert code is not None
        driver = self._driver
        function, used = code.function(launch.symbol)
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
        """Unload the code of every kernel that no other schedule shares."""
        self._loaded.clear()


def arguments_of(task: Task, launch: Launch) -> list[View]:
    """The buffers of a launch of a task, in the order of its parameters."""
    buffers = task.reads + task.writes
    return [buffers[index] for index in launch.args]
