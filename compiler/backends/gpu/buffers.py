"""The memory of one executor: its inputs, outputs and arena, and page-locked copies for the host.

One device block holds inputs and outputs, another the arena. Page-locked memory mirrors the first
one, so that neighbouring inputs travel in one copy.
"""

from collections.abc import Iterable, Mapping

from compiler.backends.gpu.driver import Driver, Handle
from compiler.backends.gpu.graph import Transfer
from compiler.backends.gpu.memory import (
    DEVICE_ALIGNMENT,
    Pinned,
    layout,
    memory_need,
    reserve,
)
from compiler.backends.gpu.sharing import DeviceMemory, DeviceShare
from compiler.backends.memory import POISON, Array
from compiler.schedule.tasks import Allocation, Schedule
from compiler.tensors.dtypes import numpy_dtype

MERGED_BYTES = 256 << 10
"""Neighbours are copied together up to this size; larger ones alone, so that work starts early."""


class Buffers:
    """Device buffers of one executor; `addresses` has one entry an allocation of the schedule."""

    def __init__(
        self,
        driver: Driver,
        schedule: Schedule,
        weights: Mapping[str, int],
        share: DeviceShare | None = None,
    ) -> None:
        self._driver = driver
        self._schedule = schedule
        every = list(enumerate(schedule.allocations))
        edges = [(i, a) for kind in ("input", "output") for i, a in every if a.kind == kind]
        self._offsets, self._total = layout(edges)
        _, self._written = layout(entry for entry in edges if entry[1].kind == "input")
        arenas, self._arena_bytes = layout(entry for entry in every if entry[1].kind == "arena")
        purpose = f"{schedule.name}: an executor"
        self._block = DeviceMemory(driver, self._total, purpose)
        self._arena = (
            DeviceMemory(driver, self._arena_bytes, purpose)
            if share is None
            else share.arena(driver, self._arena_bytes)
        )
        starts = {i: self._block.address + offset for i, offset in self._offsets.items()}
        starts |= {i: self._arena.address + offset for i, offset in arenas.items()}
        self.addresses = [weights[a.name] if a.kind == "weight" else starts[i] for i, a in every]
        self._pinned: Pinned | None = None
        self._aside = 0

    @property
    def pinned(self) -> Pinned:
        """The page-locked copy of inputs and outputs, made when the host first needs it."""
        if self._pinned is None:
            need = memory_need(self._schedule).buffers
            self._pinned = Pinned(self._driver, max(1, need))
        return self._pinned

    def aside(self, allocation: int) -> int:
        """The device address that saves an input or output while its buffer is overwritten."""
        if not self._aside:
            need = memory_need(self._schedule).buffers
            self._aside = reserve(self._driver, need, f"{self._schedule.name}: copies in turn")
        return self._aside + self._offsets[allocation]

    def staging(self, index: int, tensor: Allocation) -> Array:
        """The page-locked copy of an input or output, as an array of its present shape."""
        start = self._offsets[index]
        data = self.pinned.bytes[start : start + tensor.nbytes]
        return data.view(numpy_dtype(tensor.dtype)).reshape(tensor.shape)

    def transfers(self, allocations: Iterable[int]) -> list[Transfer]:
        """The copies between device and page-locked memory, small neighbours merged."""
        copies: list[Transfer] = []
        for index in sorted(allocations, key=self._offsets.__getitem__):
            start, nbytes = self._span(index)
            transfer = Transfer((index,), start, self.pinned.address + self._offsets[index], nbytes)
            last = copies[-1] if copies else None
            if transfer.nbytes and last is not None and self._are_adjacent(last, transfer):
                size = transfer.device + transfer.nbytes - last.device
                copies[-1] = Transfer((*last.allocations, index), last.device, last.host, size)
            elif transfer.nbytes:
                copies.append(transfer)
        return copies

    def _span(self, index: int) -> tuple[int, int]:
        """The device address of an input or output, and its size in bytes."""
        return self.addresses[index], self._schedule.allocations[index].nbytes

    def _are_adjacent(self, last: Transfer, transfer: Transfer) -> bool:
        # neighbours in the block are as far apart as alignment pads the first of them
        gap = transfer.device - (last.device + last.nbytes)
        return (
            0 <= gap < DEVICE_ALIGNMENT
            and transfer.device + transfer.nbytes - last.device <= MERGED_BYTES
        )

    def poison(self, allocations: Iterable[int], stream: Handle) -> None:
        """Queue filling outputs, arenas and these inputs with bytes that make NaN of all floats."""
        outputs = self._block.address + self._written, self._total - self._written
        arena = self._arena.address, self._arena_bytes
        for start, nbytes in [*map(self._span, allocations), outputs, arena]:
            if nbytes:
                self._driver.fill(start, POISON, nbytes, stream)

    def close(self) -> None:
        """Give all memory back, but an arena that others have."""
        if self._aside:
            self._driver.free(self._aside)
        if self._pinned is not None:
            self._pinned.close()
        nothing = DeviceMemory(self._driver, 0, "nothing")
        self._block = nothing
        self._arena = nothing
        self._aside = 0
        self._pinned = None
