"""Runs that measure sizes: what a size decides is written when its task has finished.

A task that measures a size has one more launch, a gate, which calls Python: it reads the size,
computes the numbers of the schedule for it, and writes them into the tables of the tasks that
depend on it. These wait for the task, so that no other thread reads what is written.
"""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from threading import Lock
from typing import Any

import numpy

from compiler.backends.base import Array, check_options
from compiler.backends.cpu.executable import BoundSchedule, CpuExecutor, CpuSettings
from compiler.backends.cpu.tables import (
    LAUNCH_BLOCKS,
    LAUNCH_BUFFERS,
    LAUNCH_FUNCTION,
    PER_RUN,
    SLOT_OFFSET,
    TASK_ORDER,
    ScheduleTables,
    Tables,
    Words,
)
from compiler.backends.memory import POISON, address
from compiler.errors import THIS_RUN, RunInputError
from compiler.schedule.tasks import MEASURED_SIZE
from compiler.tensors.dtypes import numpy_dtype
from compiler.tensors.extents import Extent, symbols_of
from compiler.verify.all_sizes import SizesCertificate

_GATE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""A launch's function: its buffers, and the first and the last of its blocks."""


@dataclass(frozen=True)
class _TaskRows:
    """The rows of a task's launches, from `first` to `end`, and the shapes of its results.

    Shapes are positions among the numbers of the schedule.
    """

    first: int
    end: int
    results: Sequence[tuple[int, ...]]


class MeasuredRows:
    """The rows of a schedule's tables, its extents and outputs, by the measured symbols in them.

    `launches` and `slots` have the rows of all tasks that depend on a symbol.
    """

    def __init__(self, certificate: SizesCertificate, plan: ScheduleTables) -> None:
        self.certificate = certificate
        self.plan = plan
        self.depending: dict[str, list[_TaskRows]] = {}
        self.launches: dict[str, Words] = {}
        self.slots: dict[str, Words] = {}
        tasks = {int(row[TASK_ORDER]): (int(row[0]), int(row[1])) for row in plan.tasks}
        ends = [*plan.launches[1:, LAUNCH_BUFFERS].tolist(), len(plan.slots)]
        schedule = certificate.numbers.schedule
        kernels = certificate.numbers.kernels
        for name, depending in certificate.measuring.depending.items():
            own: list[_TaskRows] = []
            for index in depending:
                task = schedule.tasks[index]
                results = task.writes[: len(kernels[task.kernel].writes)]
                own.append(_TaskRows(*tasks[index], [view.shape for view in results]))
            launches = [row for task in own for row in range(task.first, task.end)]
            starts = ((int(plan.launches[row, LAUNCH_BUFFERS]), ends[row]) for row in launches)
            slots = [slot for start, end in starts for slot in range(start, end)]
            self.depending[name] = own
            self.launches[name] = numpy.array(launches, numpy.int64)
            self.slots[name] = numpy.array(slots, numpy.int64)

    @property
    def late_outputs(self) -> Mapping[int, frozenset[str]]:
        """The outputs that no task writes before all measured symbols of their shapes are known.

        They are allocations by number, with these symbols.
        """
        symbolic = self.certificate.schedule.schedule
        depending = self.certificate.measuring.depending
        late: dict[int, frozenset[str]] = {}
        for number, allocation in enumerate(symbolic.allocations):
            symbols = _measured_in(allocation.shape)
            if allocation.kind == "output" and symbols:
                late[number] = symbols
        for index, task in enumerate(symbolic.tasks):
            for number in {view.allocation for view in task.writes} & late.keys():
                if any(index not in depending[symbol] for symbol in late[number]):
                    del late[number]
        return late

    def extents_with(self, name: str) -> list[str]:
        """The weights of extents that hold the size of a symbol."""
        return [own for own, names in self.certificate.schedule.extents.items() if name in names]


def _measured_in(shape: Iterable[Extent]) -> frozenset[str]:
    return frozenset(s.name for extent in shape for s in symbols_of(extent) if s.measured)


class MeasuringExecutor(CpuExecutor):
    """One team of threads, for one run at a time of a schedule that measures sizes."""

    def __init__(
        self,
        rows: MeasuredRows,
        numbers: Sequence[int],
        bound: BoundSchedule,
        settings: CpuSettings,
        timed: bool = False,
    ) -> None:
        super().__init__(bound, settings, timed)
        self._measurement = _Measurement(rows, numbers, bound, self._tables, settings.poison)

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """Run once; a second caller waits for the first. Outputs are the caller's to keep.

        Raises RunInputError for a size beyond its bound.
        """
        if options:
            check_options(options, {}, "a run on the CPU")
        arrays = self._inputs.prepare(inputs)
        measurement = self._measurement
        with self._running:
            late = measurement.late_names
            outputs: dict[str, Array | None] = {
                name: None if name in late else new(shape, kind)
                for name, (new, shape, kind) in self._outputs.items()
            }
            measurement.begin(outputs, self._bases)
            arena = self._arenas.take(self._need)
            try:
                self._run(arrays, [*outputs.values()], arena)
            finally:
                self._arenas.give_back(arena)
            return measurement.results()


class _Measurement:
    """The sizes of one run at a time, and what they decide.

    It refers to no executor: gates, which it keeps, refer to it.
    """

    def __init__(
        self,
        rows: MeasuredRows,
        numbers: Sequence[int],
        bound: BoundSchedule,
        tables: Tables,
        poison: bool,
    ) -> None:
        certificate = rows.certificate
        self._rows = rows
        self._certificate = certificate
        self._most = numbers
        self._weights = bound.weights
        self._tables = tables
        self._poison = poison
        self._positions = certificate.numbers.schedule.allocations
        self._late = rows.late_outputs
        self.late_names = frozenset(self._positions[number].name for number in self._late)
        self._bases = numpy.array([*bound.bases, 0], numpy.int64)
        kinds = enumerate(bound.allocations)
        self._changing = [number for number, memory in kinds if memory.kind in PER_RUN]
        symbols = certificate.numbers.symbols.items()
        most = certificate.measuring.most
        self._given = {name: numbers[at] for name, at in symbols if name not in most}
        self._lock = Lock()
        self._gates = [
            self._gate(rows.plan.gates[task], names)
            for task, names in certificate.measuring.tasks.items()
        ]

    def _gate(self, row: int, names: Sequence[str]) -> Any:
        """A gate in a row of launches, to be kept as long as the tables."""
        gate = _GATE(partial(self._open, names))
        function = ctypes.cast(gate, ctypes.c_void_p)
        self._tables.launches[row, LAUNCH_FUNCTION] = function.value or 0
        self._tables.launches[row, LAUNCH_BLOCKS] = 1
        return gate

    def begin(self, outputs: dict[str, Array | None], bases: Any) -> None:
        """Begin a run with these outputs, None for late ones; `bases` has its buffers."""
        self._outputs = outputs
        self._buffers = bases
        self._sizes: dict[str, int] = {}
        self._fault: BaseException | None = None
        for name in self._certificate.measuring.most:
            self._write_extents(name, self._most)

    def _open(self, names: Sequence[str], *_: object) -> None:
        """Read the sizes that a task measured, and write what they decide.

        No error can pass through the executor: what depends on the sizes does nothing then.
        """
        with self._lock:
            try:
                if self._fault is None:
                    self._learn(names)
            except BaseException as error:
                self._fault = error
            if self._fault is not None:
                for name in names:
                    self._tables.launches[self._rows.launches[name], LAUNCH_BLOCKS] = 0

    def _learn(self, names: Sequence[str]) -> None:
        for name in names:
            array = self._outputs[MEASURED_SIZE + name]
            assert array is not None
            size = int(array[0])
            most = self._certificate.measuring.most[name]
            if not 0 <= size <= most:
                raise RunInputError(f"the {name} is {size}, not from 0 to {most}; {THIS_RUN}")
            self._sizes[name] = size
        numbers = self._certificate.numbers_at({**self._given, **self._sizes})
        self._make_late_outputs(numbers)
        self._bases[self._changing] = self._buffers
        row = numpy.array(numbers, numpy.int64)
        for name in names:
            self._write_extents(name, numbers)
            self._write_rows(name, row)

    def _make_late_outputs(self, numbers: Sequence[int]) -> None:
        """Make the outputs whose shapes are known now."""
        for number, symbols in self._late.items():
            memory = self._positions[number]
            if self._outputs[memory.name] is None and symbols <= self._sizes.keys():
                shape = [numbers[position] for position in memory.shape]
                array = numpy.empty(shape, numpy_dtype(memory.dtype))
                if self._poison:
                    array.reshape(-1).view(numpy.uint8).fill(POISON)
                self._outputs[memory.name] = array
                self._buffers[self._changing.index(number)] = address(array)

    def _write_extents(self, name: str, numbers: Sequence[int]) -> None:
        for own in self._rows.extents_with(name):
            positions = self._certificate.numbers.extents[own]
            self._weights[own][:] = [numbers[position] for position in positions]

    def _write_rows(self, name: str, numbers: Words) -> None:
        """Write the blocks and the buffers of the tasks that depend on a size."""
        plan = self._rows.plan
        launches = self._rows.launches[name]
        slots = self._rows.slots[name]
        blocks = numbers[plan.launches[launches, LAUNCH_BLOCKS]]
        self._tables.launches[launches, LAUNCH_BLOCKS] = blocks
        offsets = numbers[plan.slots[slots, SLOT_OFFSET]]
        self._tables.slots[slots] = self._bases[plan.slots[slots, 0]] + offsets
        if 0 in self._sizes.values():
            for task in self._rows.depending[name]:
                if all(0 in numbers[[*shape]] for shape in task.results):
                    self._tables.launches[task.first : task.end, LAUNCH_BLOCKS] = 0

    def results(self) -> dict[str, Array]:
        """The outputs of the run, in their shapes; raises what went wrong in it."""
        outputs = self._outputs
        self._outputs = {}
        if self._fault is not None:
            raise self._fault
        numbers = self._certificate.numbers_at({**self._given, **self._sizes})
        results: dict[str, Array] = {}
        for memory in self._positions:
            if memory.kind == "output" and not memory.name.startswith(MEASURED_SIZE):
                array = outputs[memory.name]
                assert array is not None
                shape = tuple([numbers[position] for position in memory.shape])
                if array.shape != shape:  # it was made for the bounds
                    array = array.reshape(-1)[: prod(shape)].reshape(shape).copy()
                results[memory.name] = array
        return results
