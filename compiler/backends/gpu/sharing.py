"""Device memory that modules share: weights that are the same arrays, and one arena.

Modules that share an arena never run at once: their executors have one lock, and each run waits
for the last one of any of them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

from compiler.backends.gpu.driver import Driver, Handle
from compiler.backends.gpu.memory import as_bytes, layout, reserve, upload
from compiler.backends.memory import Array, place_weights
from compiler.schedule.tasks import Allocation, Schedule


class DeviceMemory:
    """A block of device memory, which is freed with the last reference to it."""

    def __init__(self, driver: Driver, nbytes: int, purpose: str) -> None:
        """Allocate; raises DeviceError if there is no room."""
        self._driver = driver
        self.nbytes = nbytes
        self.address = reserve(driver, nbytes, purpose) if nbytes else 0

    def close(self) -> None:
        """Give the memory back."""
        if self.address:
            self._driver.make_current()
            self._driver.free(self.address)
        self.address = 0

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class DeviceWeight:
    """A weight on the device; the host's array stays, so that its address means this weight."""

    address: int
    memory: DeviceMemory
    array: Array


class DeviceShare:
    """The memory that modules on one device have together, and the order of their runs.

    `last` is the stream and the event of the last run of all executors with this share.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.last: tuple[Handle, Handle] | None = None
        self._weights: WeakValueDictionary[tuple[int, int], DeviceWeight] = WeakValueDictionary()
        self._arenas: WeakValueDictionary[str, DeviceMemory] = WeakValueDictionary()
        self._arena_bytes = 0

    def __reduce__(self) -> tuple[type["DeviceShare"], tuple[Any, ...]]:
        """A copy begins without memory."""
        return DeviceShare, ()

    def weight(self, array: Array) -> DeviceWeight | None:
        """The weight on the device, if a module has uploaded this array."""
        return self._weights.get(_place(array))

    def add(self, weight: DeviceWeight) -> None:
        """Let other modules use a weight, for as long as one has it."""
        self._weights[_place(weight.array)] = weight

    def expect(self, nbytes: int) -> None:
        """Make arenas at least so large, as a module will need it."""
        self._arena_bytes = max(self._arena_bytes, nbytes)

    def arena(self, driver: Driver, nbytes: int) -> DeviceMemory:
        """The arena of all, or a larger one from now on; raises DeviceError without room."""
        with self.lock:
            self.expect(nbytes)
            shared = self._arenas.get("arena")
            if shared is None or shared.nbytes < nbytes:
                shared = DeviceMemory(driver, self._arena_bytes, "the arena that modules share")
                self._arenas["arena"] = shared
            return shared


def _place(array: Array) -> tuple[int, int]:
    return array.__array_interface__["data"][0], array.nbytes


class Weights:
    """The weights of a module on a device, uploaded once; `addresses` has them by name."""

    def __init__(
        self,
        driver: Driver,
        schedule: Schedule,
        weights: Mapping[str, Array],
        share: DeviceShare | None = None,
    ) -> None:
        placed = place_weights(schedule, weights)
        share = DeviceShare() if share is None else share
        with share.lock:
            shared = {name: share.weight(array) for name, array in placed.items()}
            self._weights = {name: weight for name, weight in shared.items() if weight is not None}
            new = [a for a in schedule.of_kind("weight") if a.name not in self._weights]
            self._upload(driver, schedule.name, new, placed)
            for allocation in new:
                share.add(self._weights[allocation.name])
        self.addresses = {name: weight.address for name, weight in self._weights.items()}

    def _upload(
        self, driver: Driver, name: str, new: Sequence[Allocation], placed: Mapping[str, Array]
    ) -> None:
        """Copy weights into one block, which is freed with the last of them."""
        offsets, total = layout(enumerate(new))
        memory = DeviceMemory(driver, total, f"{name}: the weights")
        for index, allocation in enumerate(new):
            address = memory.address + offsets[index]
            self._weights[allocation.name] = DeviceWeight(address, memory, placed[allocation.name])
        weights = [self._weights[allocation.name] for allocation in new]
        upload(driver, [(weight.address, as_bytes(weight.array)) for weight in weights])
