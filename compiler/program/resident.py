"""Tensors between segments that stay on the device, in memory that later tensors reuse.

All work of a program is queued on one stream. So the memory of a tensor that is no longer used can
be given to the next one at once: whatever reads the old tensor was queued before.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from threading import RLock
from typing import Any, Self

import numpy as np

from compiler.artifact.module import Module
from compiler.backends.cuda import device as cuda
from compiler.backends.emu import device as emu
from compiler.backends.gpu.arrays import DeviceArray, device_view
from compiler.backends.gpu.driver import Driver, Handle
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.memory import Pinned, reserve
from compiler.backends.gpu.sized import SizedExecutable
from compiler.backends.memory import POISON, padded_size
from compiler.errors import DeviceError
from compiler.schedule.tasks import Allocation
from compiler.tensors.dtypes import numpy_dtype

LEAST_BYTES = 1 << 17
"""The least bytes of a tensor that stays: binding it costs the host about 30 us more than a copy
through page-locked memory costs a smaller one (benchmarks/results/pygraph.md)."""


@dataclass(eq=False)
class DeviceBlock:
    """A piece of device memory, which returns to its pool when nothing refers to it."""

    pool: "BlockPool"
    address: int
    nbytes: int

    def __del__(self) -> None:
        with suppress(Exception):
            self.pool.give_back(self)


class BlockPool:
    """Device memory in blocks whose sizes are powers of two; `poison` fills blocks given back."""

    def __init__(self, driver: Driver, stream: Handle, *, poison: bool = False) -> None:
        self._driver = driver
        self._stream = stream
        self._poison = poison
        self._free: dict[int, deque[int]] = defaultdict(deque)
        self.nbytes = 0

    def take(self, nbytes: int) -> DeviceBlock:
        """A block of at least so many bytes; raises DeviceError if there is no room."""
        size = max(256, 1 << (nbytes - 1).bit_length())
        try:
            address = self._free[size].pop()
        except IndexError:
            address = self._new(size)
        return DeviceBlock(self, address, size)

    def _new(self, size: int) -> int:
        self._driver.make_current()
        try:
            address = reserve(self._driver, size, "a tensor between segments")
        except DeviceError:
            # blocks of other sizes, which no tensor uses, may make room
            self.trim()
            address = reserve(self._driver, size, "a tensor between segments")
        self.nbytes += size
        return address

    def give_back(self, block: DeviceBlock) -> None:
        """Let later tensors use a block."""
        self._driver.make_current()
        if self._poison:
            self._driver.fill(block.address, POISON, block.nbytes, self._stream)
        self._free[block.nbytes].append(block.address)

    def trim(self) -> None:
        """Free the blocks that no tensor uses, after what is queued."""
        self._driver.make_current()
        self._driver.synchronize_stream(self._stream)
        for size, blocks in [*self._free.items()]:
            while blocks:
                self._driver.free(blocks.pop())
                self.nbytes -= size


class ResidentTensor:
    """A tensor of a program on the device, which numpy and DLPack can read.

    `dtype` is numpy's. The host's copy is made when it is first read, and kept.
    """

    def __init__(self, memory: "ResidentMemory", array: DeviceArray) -> None:
        self.memory = memory
        self.array = array
        self._host: np.ndarray | None = None
        self.dtype = numpy_dtype(array.dtype)
        self.shape = array.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.array.__cuda_array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype, copy=copy)

    def numpy(self) -> np.ndarray:
        """The tensor in host memory, which must not be changed."""
        if self._host is None:
            self.memory.read([self])
        assert self._host is not None
        return self._host

    def is_read(self) -> bool:
        """Whether the host has a copy."""
        return self._host is not None

    def keep(self, host: np.ndarray) -> None:
        """Keep the host's copy."""
        self._host = host


@dataclass
class ResidentMemory:
    """The device's memory and the stream that all segments of a program share.

    `copied` counts the tensors that the host read; with `keeps_all` no segment gives it others.
    """

    driver: Driver
    poison: bool = False
    copied: int = 0
    keeps_all: bool = False
    _staging: Pinned | None = None
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self.driver.make_current()
        self.stream = self.driver.create_stream(ordered_with_default=True)
        self.pool = BlockPool(self.driver, self.stream, poison=self.poison)

    def tensors(self, outputs: Sequence[Allocation], names: Set[str]) -> dict[str, ResidentTensor]:
        """New tensors for some outputs, by name."""
        return {a.name: self._tensor(a) for a in outputs if a.name in names}

    def wait(self) -> None:
        """Block until all that is queued is done."""
        self.driver.make_current()
        self.driver.synchronize_stream(self.stream)

    def _tensor(self, allocation: Allocation) -> ResidentTensor:
        block = self.pool.take(max(1, allocation.nbytes))
        array = DeviceArray(self.driver, allocation, block.address, block)
        return ResidentTensor(self, array)

    def given(self, name: str, array: Any) -> Any:
        """A caller's array as a tensor; one on the host is returned as it is.

        Raises ShapeError if it is on another device, or not contiguous.
        """
        view = device_view(array, self.driver, self.stream)
        if view is None:
            return array
        if view.stream is not None:
            event = self.driver.create_event()
            self.driver.record(event, self.driver.stream(view.stream))
            self.driver.wait(self.stream, event)
            self.driver.destroy_event(event)  # freed after the wait
        allocation = Allocation("input", name, view.dtype, view.shape)
        owner = (array, view.owner)
        return ResidentTensor(self, DeviceArray(self.driver, allocation, view.address, owner))

    def read(self, tensors: Sequence[ResidentTensor]) -> None:
        """Copy tensors to host memory, which they keep, after what is queued."""
        starts = [0, *accumulate(padded_size(tensor.array.nbytes) for tensor in tensors)]
        with self._lock:
            self.driver.make_current()
            nbytes = starts[-1]
            if self._staging is None or len(self._staging.bytes) < nbytes:
                if self._staging is not None:
                    self._staging.close()
                self._staging = None
                self._staging = Pinned(self.driver, 1 << max(16, (nbytes - 1).bit_length()))
            staging = self._staging
            for start, tensor in zip(starts, tensors, strict=False):
                if tensor.array.nbytes:
                    address = staging.address + start
                    self.driver.copy(
                        address, tensor.array.address, tensor.array.nbytes, self.stream
                    )
            self.driver.synchronize_stream(self.stream)
            for start, tensor in zip(starts, tensors, strict=False):
                data = staging.bytes[start : start + tensor.array.nbytes]
                tensor.keep(data.view(tensor.dtype).reshape(tensor.shape).copy())
            self.copied += len(tensors)

    def release(self) -> None:
        """Free what no tensor uses."""
        self.pool.trim()
        with self._lock:
            if self._staging is not None:
                self._staging.close()
            self._staging = None

    def run(
        self,
        executable: GpuExecutable | SizedExecutable,
        inputs: Mapping[str, Any],
        names: Set[str],
    ) -> dict[str, Any]:
        """Queue a run of a segment whose outputs of these names stay; all outputs by name.

        It waits for the outputs that the host gets.
        """
        passed = {n: v.array if isinstance(v, ResidentTensor) else v for n, v in inputs.items()}
        staying = self.tensors(executable.outputs, names)
        arrays = {name: tensor.array for name, tensor in staying.items()}
        stream = self.driver.handle_address(self.stream)
        run = executable.submit(passed, outputs=arrays, stream=stream)
        every = [output.name for output in executable.outputs]
        return {**staying} if len(staying) == len(every) else {**run.wait(), **staying}


@dataclass(frozen=True, slots=True)
class ResidentModule:
    """A module whose large outputs stay on the device, if other segments read them.

    All outputs stay once a run of the program asked for device arrays. `memory` gives the device's
    memory, which is there from the first run on.
    """

    module: Module
    memory: Callable[[], ResidentMemory]
    staying: frozenset[str]

    @classmethod
    def of(cls, module: Module, memory: Callable[[], ResidentMemory], reread: Set[str]) -> Self:
        """A module whose outputs named in `reread` are read by other segments."""
        large = {a.name for a in module.outputs if a.nbytes >= LEAST_BYTES}
        return cls(module, memory, frozenset(large & reread))

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Queue a run on arrays of either kind; the outputs by name."""
        executable = self.module.executable
        assert isinstance(executable, GpuExecutable | SizedExecutable)
        memory = self.memory()
        every = memory.keeps_all
        if not every and not self.staying and {*map(type, inputs.values())} <= {np.ndarray}:
            return executable.run(inputs)  # nothing is on the device before or after it
        names = {output.name for output in self.module.outputs} if every else self.staying
        return memory.run(executable, inputs, names)


def open_memory(backend: str, options: Mapping[str, Any]) -> ResidentMemory:
    """The memory of one program on the device that modules with these options run on."""
    if backend == "emu":
        return ResidentMemory(emu.device(), poison=bool(options.get("poison", True)))
    return ResidentMemory(cuda.device(int(options.get("ordinal", 0))))


def is_on_device(value: Any) -> bool:
    """Whether a caller's value may be in a device's memory: an array that is not numpy's."""
    if isinstance(value, np.ndarray):
        return False
    return hasattr(value, "__dlpack_device__") or hasattr(value, "__cuda_array_interface__")


def on_host(value: Any) -> Any:
    """A value of a program as the host reads it."""
    return value.numpy() if isinstance(value, ResidentTensor) else value


def all_on_host(values: Sequence[Any]) -> list[Any]:
    """Values as the host reads them, for which it waits once."""
    resident = [value for value in values if isinstance(value, ResidentTensor)]
    if not resident:
        return [*values]
    if waiting := {id(tensor): tensor for tensor in resident if not tensor.is_read()}:
        first, *more = waiting.values()
        first.memory.read([first, *more])
    return [on_host(value) for value in values]
