"""A symbolic schedule on the CPU, from which executables for sizes are made."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy

from compiler.backends.base import Array
from compiler.backends.cpu.build import CpuProgram
from compiler.backends.cpu.executable import (
    BoundSchedule,
    CpuExecutable,
    CpuExecutor,
    CpuSettings,
)
from compiler.backends.cpu.measuring import MeasuredRows, MeasuringExecutor
from compiler.backends.cpu.tables import make_plan
from compiler.backends.memory import address, aligned_copy, place_weights
from compiler.verify.all_sizes import SizesCertificate


class SizedCode:
    """A symbolic schedule on a CPU: its code, tables of positions, and weights."""

    def __init__(
        self,
        certificate: SizesCertificate,
        weights: Mapping[str, Array],
        program: CpuProgram,
        settings: CpuSettings,
    ) -> None:
        numbers = certificate.numbers
        self.certificate = certificate
        self.settings = settings
        self._numbers = numbers
        self._program = program
        measuring = certificate.measuring.tasks
        self._plan = make_plan(numbers.schedule, numbers.kernels, program.addresses, measuring)
        self._weights = place_weights(numbers.with_weights_alone, weights)
        self._bases = [0] * len(numbers.constant)
        self._extents: list[tuple[int, str, tuple[int, ...]]] = []
        for number, allocation in enumerate(numbers.constant):
            if allocation.kind == "weight" and allocation.name in numbers.extents:
                self._extents.append((number, allocation.name, numbers.extents[allocation.name]))
            elif allocation.kind == "weight":
                self._bases[number] = address(self._weights[allocation.name])

    @cached_property
    def rows(self) -> MeasuredRows:
        """The rows of the tables that sizes decide which a run measures."""
        return MeasuredRows(self.certificate, self._plan)

    def at(self, numbers: Sequence[int]) -> CpuExecutable:
        """The executable for the sizes that give the schedule these numbers."""
        if self.certificate.measuring.most:
            return MeasuringExecutable(self, numbers)
        return CpuExecutable(self.bound_at(numbers), self.settings)

    def bound_at(self, numbers: Sequence[int]) -> BoundSchedule:
        """The schedule with these numbers, whose extents are in memory of its own."""
        weights = {**self._weights}
        bases = [*self._bases]
        for allocation, name, positions in self._extents:
            weights[name] = aligned_copy(numpy.array([numbers[p] for p in positions], numpy.int64))
            bases[allocation] = address(weights[name])
        return BoundSchedule(
            program=self._program,
            plan=self._plan.at(numpy.array(numbers, numpy.int64)),
            allocations=self._numbers.allocations_at(numbers),
            weights=weights,
            bases=bases,
            streams=self._numbers.schedule.streams,
        )


class MeasuringExecutable(CpuExecutable):
    """A schedule whose runs measure sizes, which in its `numbers` are their bounds."""

    def __init__(self, code: SizedCode, numbers: Sequence[int]) -> None:
        super().__init__(code.bound_at(numbers), code.settings)
        self._code = code
        self._numbers = numbers

    def _new(self, settings: CpuSettings, timed: bool = False) -> CpuExecutor:
        # each executor writes the sizes of its runs to extents of its own
        bound = self._code.bound_at(self._numbers)
        return MeasuringExecutor(self._code.rows, self._numbers, bound, settings, timed)
