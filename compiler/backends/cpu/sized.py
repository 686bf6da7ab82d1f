"""A symbolic schedule on the CPU, from which executables for sizes are made."""

from collections.abc import Mapping, Sequence

import numpy

from compiler.backends.base import Array
from compiler.backends.cpu.build import CpuProgram
from compiler.backends.cpu.executable import BoundSchedule, CpuExecutable, CpuSettings
from compiler.backends.cpu.tables import make_plan
from compiler.backends.memory import address, aligned_copy, place_weights
from compiler.schedule.numbering import NumberedSchedule


class SizedCode:
    """A symbolic schedule on a CPU: its code, tables of positions, and weights."""

    def __init__(
        self,
        numbers: NumberedSchedule,
        weights: Mapping[str, Array],
        program: CpuProgram,
        settings: CpuSettings,
    ) -> None:
        self._numbers = numbers
        self._program = program
        self._settings = settings
        self._plan = make_plan(numbers.schedule, numbers.kernels, program.addresses)
        self._weights = place_weights(numbers.with_weights_alone, weights)
        self._bases = [0] * len(numbers.constant)
        self._extents: list[tuple[int, str, tuple[int, ...]]] = []
        for number, allocation in enumerate(numbers.constant):
            if allocation.kind == "weight" and allocation.name in numbers.extents:
                self._extents.append((number, allocation.name, numbers.extents[allocation.name]))
            elif allocation.kind == "weight":
                self._bases[number] = address(self._weights[allocation.name])

    def at(self, numbers: Sequence[int]) -> "CpuExecutable":
        """The executable for the sizes that give the schedule these numbers."""
        weights = {**self._weights}
        bases = [*self._bases]
        for allocation, name, positions in self._extents:
            weights[name] = aligned_copy(numpy.array([numbers[p] for p in positions], numpy.int64))
            bases[allocation] = address(weights[name])
        allocations = self._numbers.allocations_at(numbers)
        plan = self._plan.at(numpy.array(numbers, numpy.int64))
        bound = BoundSchedule(
            program=self._program,
            plan=plan,
            allocations=allocations,
            weights=weights,
            bases=bases,
            streams=self._numbers.schedule.streams,
        )
        return CpuExecutable(bound, self._settings)
