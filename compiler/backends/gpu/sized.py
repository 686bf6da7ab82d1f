"""Executables for sizes of a schedule that was compiled once for all sizes.

Sizes are in buckets: a bucket has the graph, the arena and the buffers of its largest sizes. Its
kernels read the sizes of a run from device memory, which is written before the graph is launched;
blocks beyond the grid for these leave at once. So a new size in a bucket changes nothing else.

A tensor's address is that of the bucket: slots of the arena begin where its own slots do, and what
is smaller than they are leaves them apart. This needs that no size decides where in a slot, or in
an input or output, a tensor begins.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import le
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from compiler.backends.base import MemoryReport
from compiler.backends.gpu.binding import RunSizes
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.executor import GpuExecutor
from compiler.backends.gpu.run import Run
from compiler.backends.gpu.timeline import Span
from compiler.backends.memory import Array, aligned_copy, place_weights
from compiler.errors import ScheduleError
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Allocation, Schedule
from compiler.tensors.extents import NotForAllSizes, symbols_of
from compiler.verify.all_sizes import SizesCertificate

Load = Callable[[Schedule, Mapping[str, KernelSpec], Mapping[str, Array]], GpuExecutable]


class SizeBuckets:
    """Loads a symbolic schedule for buckets of sizes by a backend's `load`.

    A bucket lives as long as an executable for any of its sizes.
    """

    def __init__(
        self, certificate: SizesCertificate, weights: Mapping[str, Array], load: Load
    ) -> None:
        self._certificate = certificate
        self._weights = place_weights(certificate.numbers.with_weights_alone, weights)
        self._load = load
        self._buckets: WeakValueDictionary[tuple[int, ...], GpuExecutable] = WeakValueDictionary()
        self._lock = Lock()
        symbolic = certificate.schedule
        slots = {slot.offset for slot in symbolic.slots}
        views = (view for task in symbolic.schedule.tasks for view in (*task.reads, *task.writes))
        self._begins_are_fixed = all(symbols_of(view.offset) <= slots for view in views)

    def at(self, numbers: Sequence[int]) -> "SizedExecutable":
        """The executable for the sizes that give the schedule these numbers."""
        largest = self._bucket_of(numbers)
        with self._lock:
            bucket = self._buckets.get(largest)
            if bucket is None:
                bucket = self._buckets[largest] = self.exact(largest)
            return SizedExecutable(self, bucket, numbers)

    def exact(self, numbers: Sequence[int]) -> GpuExecutable:
        """An executable of the grids and the memory for these numbers alone."""
        instance = self._certificate.numbers.instance_at(numbers)
        extents = {
            name: aligned_copy(np.array(values, np.int64))
            for name, values in instance.extents.items()
        }
        return self._load(instance.schedule, instance.kernels, {**self._weights, **extents})

    def _bucket_of(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The numbers for the largest sizes of a bucket; those for the sizes where there is none.

        No number may be larger than the bucket's.
        """
        symbols = self._certificate.schedule.symbols
        positions = self._certificate.numbers.symbols
        sizes = {
            name: bucket_size(numbers[at], symbols[name].high) for name, at in positions.items()
        }
        if self._begins_are_fixed:
            try:
                largest = self._certificate.numbers_at(sizes)
            except (NotForAllSizes, ScheduleError):  # these sizes are valid, the bucket's are not
                return tuple(numbers)
            if all(map(le, numbers, largest)):
                return largest
        return tuple(numbers)

    def allocations_at(self, numbers: Sequence[int]) -> Sequence[Allocation]:
        """The schedule's allocations with these numbers."""
        return self._certificate.numbers.allocations_at(numbers)

    def values_at(self, numbers: Sequence[int]) -> Mapping[str, Sequence[int]]:
        """The values of each weight of extents."""
        extents = self._certificate.numbers.extents
        return {name: [numbers[at] for at in positions] for name, positions in extents.items()}


class SizedExecutable:
    """Runs for sizes on the graph of a bucket. It implements `Executable`."""

    def __init__(self, every: SizeBuckets, bucket: GpuExecutable, numbers: Sequence[int]) -> None:
        self._every = every
        self._numbers = numbers
        self.bucket = bucket
        self._allocations = every.allocations_at(numbers)
        self.outputs: Sequence[Allocation] = [a for a in self._allocations if a.kind == "output"]
        """The outputs in the model's order."""
        self._sizes: tuple[GpuExecutor, RunSizes] | None = None

    @cached_property
    def exact(self) -> GpuExecutable:
        """An executable of the grids and the memory for these sizes alone."""
        return self._every.exact(self._numbers)

    @property
    def streams(self) -> int:
        """The number of streams of the schedule."""
        return self.bucket.streams

    @property
    def threads(self) -> int:
        """The host threads that work on a run: the caller's alone."""
        return self.bucket.threads

    @property
    def memory(self) -> MemoryReport:
        """The memory of the bucket, in bytes."""
        return self.bucket.memory

    def executor(self, **options: Any) -> GpuExecutor:
        """A further executor, for these sizes alone."""
        return self.exact.executor(**options)

    def timeline(self) -> list[Span]:
        """The start and end of each task, from timing events around plain launches."""
        return self.exact.timeline()

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Run and wait; `options` are those of `Executor.submit`."""
        executor = self.bucket.default
        return executor.run(inputs, sizes=self._sizes_on(executor), **options)

    def submit(self, inputs: Mapping[str, Any], **options: Any) -> Run:
        """Queue one run and return at once; see `Executor.submit`."""
        executor = self.bucket.default
        return executor.submit(inputs, sizes=self._sizes_on(executor), **options)

    def _sizes_on(self, executor: GpuExecutor) -> RunSizes:
        """The sizes for an executor; the bucket has another one after it was closed."""
        present = self._sizes
        if present is None or present[0] is not executor:
            values = self._every.values_at(self._numbers)
            addresses = self.bucket.weight_addresses
            writes = [
                (addresses[name] + 8 * i, value)
                for name, extents in values.items()
                for i, value in enumerate(extents)
            ]
            present = self._sizes = executor, executor.for_sizes(self._allocations, writes)
        return present[1]

    def close(self) -> None:
        """Release the bucket's default executor, until the next run."""
        self.bucket.close()


def bucket_size(size: int, limit: int | None) -> int:
    """The largest size of a bucket: a power of two, or three quarters of one, at most `limit`."""
    power = 1 << max(1, size - 1).bit_length()
    largest = 3 * power // 4 if size <= 3 * power // 4 else power
    return largest if limit is None else max(size, min(largest, limit))
