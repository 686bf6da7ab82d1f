"""Executables for sizes of a schedule that was compiled once for all sizes."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.memory import Array, aligned_copy, place_weights
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.numbering import NumberedSchedule
from compiler.schedule.tasks import Schedule

Load = Callable[[Schedule, Mapping[str, KernelSpec], Mapping[str, Array]], GpuExecutable]


class SizedLoader:
    """Loads a schedule for sizes by a backend's `load`, with its options but for these three."""

    def __init__(self, numbers: NumberedSchedule, weights: Mapping[str, Array], load: Load) -> None:
        self._numbers = numbers
        self._weights = place_weights(numbers.with_weights_alone, weights)
        self._load = load

    def at(self, numbers: Sequence[int]) -> GpuExecutable:
        """The executable for sizes, of which these are the schedule's numbers."""
        instance = self._numbers.instance_at(numbers)
        extents = {
            name: aligned_copy(np.array(values, np.int64))
            for name, values in instance.extents.items()
        }
        return self._load(instance.schedule, instance.kernels, {**self._weights, **extents})
