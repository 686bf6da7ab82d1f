"""A schedule on the CPU: its code and weights, and teams of threads that run it."""

import ctypes
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from operator import index
from typing import Any

import numpy

from compiler.backends.base import Array, MemoryReport, check_options
from compiler.backends.cpu.arenas import ArenaPool
from compiler.backends.cpu.build import CpuProgram
from compiler.backends.cpu.inputs import ExpectedInputs
from compiler.backends.cpu.tables import PER_RUN, ScheduleTables, Tables
from compiler.backends.cpu.timeline import (
    TIMED_RUNS,
    ThreadSpan,
    median_run,
    read_spans,
    spans_of,
)
from compiler.backends.memory import POISON, address, aligned_array, padded_size
from compiler.errors import DeviceError
from compiler.schedule.tasks import Allocation
from compiler.support.arguments import BOOLEAN, THREAD_COUNT, ArgumentKind, optional
from compiler.support.memory import require
from compiler.tensors.dtypes import numpy_dtype

CPU_EXECUTOR_OPTIONS: Mapping[str, ArgumentKind] = {
    "threads": optional(THREAD_COUNT),
    "timed": BOOLEAN,
}
"""The options of a further executor."""

ALIGNED_BYTES = 4096
"""Outputs from this size on are aligned; a smaller one is written in less time than that takes."""


@dataclass(frozen=True)
class CpuSettings:
    """The options of all executors of an executable, as `CpuBackend.load` takes them."""

    threads: int
    poison: bool
    arenas: ArenaPool


@dataclass(frozen=True)
class BoundSchedule:
    """A schedule's code, tables and weights; `bases` has the address of each allocation's weight.

    Those of other allocations are 0.
    """

    program: CpuProgram
    plan: ScheduleTables
    allocations: Sequence[Allocation]
    weights: Mapping[str, Array]
    bases: Sequence[int]
    streams: int


class CpuExecutable:
    """A schedule's code and weights, and idle executors for callers of `run`.

    As many executors are kept as runs were in progress at once; `close` releases them. A process
    forked from this one makes new executors.
    """

    def __init__(self, bound: BoundSchedule, settings: CpuSettings):
        self.threads = settings.threads
        self.streams = bound.streams
        self._bound = bound
        self._settings = settings
        self._arena = arena_bytes(bound.allocations)
        outputs = sum(a.nbytes for a in bound.allocations if a.kind == "output")
        self._run_bytes = self._arena + outputs
        require(self._run_bytes, "a run, with its arena and outputs,")
        self._idle: deque[CpuExecutor] = deque()
        self._process = os.getpid()

    @property
    def memory(self) -> MemoryReport:
        """Bytes of the weights, of one executor's arena and of the kernels' objects."""
        weights = sum(padded_size(array.nbytes) for array in self._bound.weights.values())
        return MemoryReport(weights, self._arena, self._bound.program.code_bytes)

    def executor(self, **options: Any) -> "CpuExecutor":
        """A further executor, with its own `threads`; each run of it takes an arena.

        One that is `timed` can say when its last run executed which task.
        """
        check_options(options, CPU_EXECUTOR_OPTIONS, "a CPU executor")
        require(self._run_bytes, "a further run, with its arena and outputs,")
        threads = index(options.get("threads") or self.threads)
        settings = replace(self._settings, threads=threads)
        return self._new(settings, timed=options.get("timed", False))

    def _new(self, settings: CpuSettings, timed: bool = False) -> "CpuExecutor":
        return CpuExecutor(self._bound, settings, timed)

    def timeline(self, inputs: Mapping[str, Any], runs: int = TIMED_RUNS) -> list[ThreadSpan]:
        """When threads worked on which task, in the run of median length of some."""
        executor = self.executor(timed=True)
        try:
            return median_run(partial(_timed_run, executor, inputs), runs)
        finally:
            executor.close()

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """Run once on an idle executor, or a new one; any number of threads may call this."""
        if options:
            check_options(options, {}, "a run on the CPU")
        executor = self._take()
        try:
            return executor.run(inputs)
        finally:
            self._idle.append(executor)

    def _take(self) -> "CpuExecutor":
        # fork copies the executors, but none of their threads
        if self._process != os.getpid():
            self._idle = deque()
            self._process = os.getpid()
        try:
            # asking first whether there is one would race with the runs of other threads
            return self._idle.pop()
        except IndexError:
            return self._new(self._settings)

    def close(self) -> None:
        """Release the idle executors with their threads, and the idle arenas."""
        while self._idle:
            self._idle.pop().close()
        self._settings.arenas.close()


class CpuExecutor:
    """One team of threads, for one run at a time."""

    def __init__(self, bound: BoundSchedule, settings: CpuSettings, timed: bool = False):
        program = bound.program
        plan = bound.plan
        allocations = bound.allocations
        threads = settings.threads
        self._program = program
        self._allocations = allocations
        self._poison = settings.poison
        self._timed = timed
        self._running = threading.Lock()
        self._arenas = settings.arenas
        self._inputs = ExpectedInputs(allocations)
        self._outputs = {
            allocation.name: (
                aligned_array if allocation.nbytes >= ALIGNED_BYTES else numpy.empty,
                allocation.shape,
                numpy_dtype(allocation.dtype),
            )
            for allocation in allocations
            if allocation.kind == "output"
        }
        self._need = arena_bytes(allocations)
        sizes = [
            padded_size(allocation.nbytes)
            for allocation in allocations
            if allocation.kind == "arena"
        ]
        self._offsets = [0, *accumulate(sizes)][:-1]
        self._order = _order_of_changing(allocations)
        self._bases = (ctypes.c_int64 * len(self._order))()
        most_spans = spans_of(len(plan.tasks), len(plan.launches), threads) if timed else 0
        self._plan = plan
        kinds = [a.kind for a in allocations]
        self._tables = Tables(plan, kinds, bound.bases, threads, most_spans)
        program.open(self._tables.address)
        homes = [home % max(1, len(plan.streams)) for home in range(1, threads)]
        keep = (program, self._tables, bound.weights)
        team: list[threading.Thread] = []
        self._finalizer = weakref.finalize(self, _dismiss, os.getpid(), team, keep)
        try:
            for home in homes:
                team.append(_start_worker(program, self._tables.address, home, keep))
        except RuntimeError as error:  # as Python says that the system refuses a thread
            self._finalizer()
            raise DeviceError(
                f"{threads} threads are to work on a run, and the system starts {len(team) + 1}:"
                " ask for fewer by `threads`, or raise the limits of the process"
            ) from error

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """Run once; a second caller waits for the first. Outputs are the caller's to keep."""
        if options:
            check_options(options, {}, "a run on the CPU")
        arrays = self._inputs.prepare(inputs)
        outputs = {name: new(shape, kind) for name, (new, shape, kind) in self._outputs.items()}
        with self._running:
            arena = self._arenas.take(self._need)
            try:
                self._run(arrays, [*outputs.values()], arena)
            finally:
                self._arenas.give_back(arena)
        return outputs

    def _run(self, inputs: Sequence[Array], outputs: Sequence[Array | None], arena: Array) -> None:
        """Run on these buffers; outputs that the run makes itself are None."""
        if not self._finalizer.alive:
            raise DeviceError("this executor is closed: take another one by `executor()`")
        if self._poison:
            for array in [arena, *(output for output in outputs if output is not None)]:
                array.reshape(-1).view(numpy.uint8).fill(POISON)
        start = address(arena) if self._offsets else 0
        arenas = [start + offset for offset in self._offsets]
        written = [0 if array is None else address(array) for array in outputs]
        addresses = [*map(address, inputs), *written, *arenas]
        self._bases[:] = [addresses[index] for index in self._order]
        if self._timed:
            self._tables.forget_spans()
        self._program.run(self._tables.address, ctypes.addressof(self._bases))

    def spans(self) -> list[ThreadSpan]:
        """When threads worked on which task in the last run; empty unless it is `timed`."""
        with self._running:
            return read_spans(self._tables.spans(), self._plan)

    def close(self) -> None:
        """Wait for a run under way, then end the threads."""
        with self._running:
            self._finalizer()


def arena_bytes(allocations: Iterable[Allocation]) -> int:
    """Bytes of all arenas of a schedule, each aligned."""
    return sum(padded_size(a.nbytes) for a in allocations if a.kind == "arena")


def _order_of_changing(allocations: Iterable[Allocation]) -> list[int]:
    """For each allocation that changes with a run, its index among these sorted by PER_RUN."""
    kinds = [
        PER_RUN.index(allocation.kind) for allocation in allocations if allocation.kind in PER_RUN
    ]
    by_kind = sorted(range(len(kinds)), key=kinds.__getitem__)
    # sorting the indices of a permutation by its entries inverts it
    return sorted(range(len(kinds)), key=by_kind.__getitem__)


def _timed_run(executor: CpuExecutor, inputs: Mapping[str, Any]) -> list[ThreadSpan]:
    executor.run(inputs)
    return executor.spans()


def _start_worker(program: CpuProgram, engine: int, home: int, keep: object) -> threading.Thread:
    """A thread that works for an engine; it keeps the engine's memory, not its executor."""

    def work(_: object) -> None:
        program.work(engine, home)

    # At exit Python waits for threads that are not daemons before finalizers run, and only the
    # finalizer ends this one.
    worker = threading.Thread(target=work, args=(keep,), name="flowloom", daemon=True)
    worker.start()
    return worker


def _dismiss(
    process: int,
    team: Sequence[threading.Thread],
    keep: tuple[CpuProgram, Tables, object],
) -> None:
    """End a team's threads; a forked child has none of them."""
    if process != os.getpid():
        return
    program, tables, _ = keep
    program.close(tables.address)
    for worker in team:
        # the garbage collector may finalize an executor on one of its own threads
        if worker is not threading.current_thread():
            worker.join()
