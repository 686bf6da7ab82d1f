"""Device memory: how much a schedule needs, checked before it is taken, and its layout."""

import ctypes
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from compiler.backends.gpu.driver import Driver
from compiler.backends.memory import Array
from compiler.errors import DeviceError
from compiler.schedule.tasks import Allocation, Schedule

DEVICE_ALIGNMENT = 256
"""Every buffer starts at a multiple of this, as the driver's own allocations do."""

UPLOAD_BYTES = 32 << 20
"""Weights travel through page-locked memory in pieces of this size."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes of device memory: the weights once, the rest for each executor."""

    weights: int
    arena: int
    buffers: int

    @property
    def total(self) -> int:
        """Bytes for one executor and the weights."""
        return self.weights + self.arena + self.buffers

    def __str__(self) -> str:
        resident = f"weights {size(self.weights)}, arena {size(self.arena)}"
        return f"{size(self.total)} ({resident}, inputs and outputs {size(self.buffers)})"


def size(nbytes: int) -> str:
    """A number of bytes in MiB, for messages."""
    return f"{nbytes / 2**20:.1f} MiB"


def aligned(nbytes: int) -> int:
    """The number of bytes rounded up to the alignment."""
    return -(-nbytes // DEVICE_ALIGNMENT) * DEVICE_ALIGNMENT


def memory_need(schedule: Schedule) -> MemoryNeed:
    """How much device memory a schedule takes, without taking any."""

    def total(*kinds: str) -> int:
        return sum(aligned(a.nbytes) for a in schedule.allocations if a.kind in kinds)

    return MemoryNeed(total("weight"), total("arena"), total("input", "output"))


def layout(allocations: Iterable[tuple[int, Allocation]]) -> tuple[dict[int, int], int]:
    """The offset of each allocation (by index) in one block, and the block's size."""
    offsets: dict[int, int] = {}
    end = 0
    for index, allocation in allocations:
        offsets[index] = end
        end += aligned(allocation.nbytes)
    return offsets, end


def reserve(driver: Driver, nbytes: int, purpose: str) -> int:
    """Allocate device memory; DeviceError says how much was needed and how much is free."""
    free = driver.free_memory()
    logger.info("%s: allocating %s of %s free", purpose, size(nbytes), size(free))
    if nbytes <= free:
        # what is free may be in pieces, or another process may take it first
        with suppress(DeviceError):
            return driver.allocate(nbytes)
    raise DeviceError(
        f"{purpose} needs {size(nbytes)} of device memory, {size(free)} are free of "
        f"{size(driver.device.memory_bytes)} on {driver.device.name}: free some, make the inputs "
        "smaller, or use plan-memory{reuse=tight}"
    )


def as_bytes(array: Array) -> Array:
    """The bytes of a row-major array."""
    return array.reshape(-1).view(np.uint8)


def upload(driver: Driver, arrays: Sequence[tuple[int, Array]]) -> None:
    """Copy bytes to device addresses through one page-locked piece of memory."""
    piece = min(UPLOAD_BYTES, max((array.size for _, array in arrays), default=0))
    if not piece:
        return
    pinned = Pinned(driver, piece)
    stream = driver.create_stream()
    for address, array in arrays:
        for start in range(0, array.size, piece):
            chunk = array[start : start + piece]
            pinned.bytes[: chunk.size] = chunk
            driver.copy(address + start, pinned.address, chunk.size, stream)
            # the next chunk overwrites the page-locked piece
            driver.synchronize_stream(stream)
    driver.destroy_stream(stream)
    pinned.close()


class Pinned:
    """Page-locked host memory as an array of bytes."""

    def __init__(self, driver: Driver, nbytes: int) -> None:
        self._driver = driver
        self.address = 0
        try:
            self.address = driver.allocate_pinned(nbytes)
        except DeviceError as error:
            raise DeviceError(
                f"{size(nbytes)} of page-locked host memory are not available ({error}): free some "
                "of the host's memory, or make the inputs and outputs smaller"
            ) from error
        memory = (ctypes.c_uint8 * nbytes).from_address(self.address)
        self.bytes: Array = np.ctypeslib.as_array(memory)

    def close(self) -> None:
        """Give the memory back; no view of it may be used afterwards."""
        if self.address:
            self._driver.free_pinned(self.address)
        self.address = 0
