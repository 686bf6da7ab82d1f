"""Pointers on the device, for kernels that read the addresses of their buffers there."""

from collections.abc import Iterable, Sequence

import numpy as np

from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.memory import as_bytes, reserve, upload

POINTER_BYTES = 8

BufferOffset = tuple[int, int]
"""An allocation and an offset in it."""


class Pointers:
    """Pointers on the device, one for each place; `of` has the address of each."""

    def __init__(
        self, driver: Driver, addresses: Sequence[int], targets: Iterable[BufferOffset]
    ) -> None:
        self._driver = driver
        distinct = list(dict.fromkeys(targets))
        need = POINTER_BYTES * len(distinct)
        self._block = reserve(driver, need, "pointers to inputs and outputs") if need else 0
        self.of = {
            target: self._block + POINTER_BYTES * number for number, target in enumerate(distinct)
        }
        values = [addresses[allocation] + offset for allocation, offset in distinct]
        if need:
            upload(driver, [(self._block, as_bytes(np.array(values, np.uint64)))])

    def of_buffer(self, allocation: int, address: int) -> list[tuple[int, int]]:
        """The pointers into an allocation, with their values when it is at `address`."""
        inside = [target for target in self.of if target[0] == allocation]
        return [(self.of[target], address + target[1]) for target in inside]

    def close(self) -> None:
        """Give the memory back."""
        if self._block:
            self._driver.free(self._block)
        self._block = 0
