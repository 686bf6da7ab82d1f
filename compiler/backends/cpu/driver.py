"""The CPU backend: a team of native threads runs the streams of a schedule."""

import os
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from compiler.backends.base import Array, MemoryReport, check_options, whole
from compiler.backends.cpu import features
from compiler.backends.cpu.build import CpuProgram
from compiler.backends.cpu.inputs import prepare_inputs
from compiler.backends.cpu.tables import ScheduleTables, Tables, make_plan
from compiler.backends.memory import (
    POISON,
    address,
    aligned_array,
    aligned_bytes,
    numpy_dtype,
    padded_size,
    place_weights,
    require,
)
from compiler.errors import DeviceError
from compiler.schedule import Allocation, KernelSpec, Schedule
from compiler.verify.structure import check_structure


def usable_threads() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CpuBackend:
    """Runs object-file kernels on the host's CPU."""

    name = "cpu"

    def requirements(self, target: str) -> dict[str, Any]:
        """The architecture and the features that the target's code uses."""
        return features.requirements(target)

    def check(self, requirements: Mapping[str, Any]) -> None:
        """Raise DeviceError, naming the features, unless this CPU has them all."""
        features.check_features(requirements)

    def load(
        self,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        weights: Mapping[str, Array],
        *,
        threads: int | None = None,
        poison: bool = False,
        **others: Any,
    ) -> "CpuExecutable":
        """Link the kernels and place the weights.

        `threads` work on each run, the caller's included (default: all cores that this process
        may use). `poison` fills arena and outputs with NaN before each run.
        """
        check_options(others, ("threads", "poison"), "the CPU")
        count = usable_threads() if threads is None else whole("threads", threads, 1)
        return CpuExecutable(schedule, kernels, weights, count, poison)


BACKEND = CpuBackend()


class CpuExecutable:
    """A schedule's code and weights, and idle executors for callers of `run`.

    As many executors are kept as runs were in progress at once; `close` releases them. A process
    forked from this one makes new executors.
    """

    def __init__(
        self,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        weights: Mapping[str, Array],
        threads: int,
        poison: bool,
    ):
        check_structure(schedule)
        self.threads = threads
        self.streams = schedule.streams
        self._poison = poison
        self._allocations = schedule.allocations
        self._arena = sum(
            padded_size(allocation.nbytes) for allocation in schedule.of_kind("arena")
        )
        placed = place_weights(schedule, weights)
        require(self._arena, "the arena")
        self._program = CpuProgram(kernels.values())
        self._plan = make_plan(schedule, kernels, self._program.addresses)
        self._weights = placed
        self._idle: deque[CpuExecutor] = deque()
        self._process = os.getpid()

    @property
    def memory(self) -> MemoryReport:
        """Bytes of the weights, of one executor's arena and of the kernels' objects."""
        weights = sum(padded_size(array.nbytes) for array in self._weights.values())
        return MemoryReport(weights, self._arena, self._program.code_bytes)

    def executor(self, *, threads: int | None = None, **others: Any) -> "CpuExecutor":
        """A further executor, with its own arena and threads."""
        check_options(others, ("threads",), "a CPU executor")
        require(self._arena, "an executor's arena")
        count = self.threads if threads is None else whole("threads", threads, 1)
        return CpuExecutor(
            self._program, self._plan, self._allocations, self._weights, count, self._poison
        )

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """Run once on an idle executor, or a new one; any number of threads may call this."""
        check_options(options, (), "a run on the CPU")
        executor = self._take()
        try:
            return executor.run(inputs)
        finally:
            self._idle.append(executor)

    def _take(self) -> "CpuExecutor":
        if self._process != os.getpid():
            self._idle = deque()
            self._process = os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return self.executor()

    def close(self) -> None:
        """Release the idle executors, with their threads and arenas."""
        while self._idle:
            self._idle.pop().close()


class CpuExecutor:
    """One arena and one team of threads, for one run at a time."""

    def __init__(
        self,
        program: CpuProgram,
        plan: ScheduleTables,
        allocations: Sequence[Allocation],
        weights: Mapping[str, Array],
        threads: int,
        poison: bool,
    ):
        self._program = program
        self._allocations = allocations
        self._poison = poison
        self._running = threading.Lock()
        arenas = [aligned_bytes(a.nbytes) for a in allocations if a.kind == "arena"]
        self._arenas = arenas
        pending = iter(arenas)
        fixed = [
            next(pending) if a.kind == "arena" else weights[a.name] if a.kind == "weight" else None
            for a in allocations
        ]
        bases = [0 if array is None else address(array) for array in fixed]
        self._tables = Tables(plan, [a.kind for a in allocations], bases, threads)
        program.open(self._tables.address)
        homes = [home % max(1, len(plan.streams)) for home in range(1, threads)]
        keep = (program, self._tables, fixed)
        team = [_start_worker(program, self._tables.address, home, keep) for home in homes]
        self._finalizer = weakref.finalize(self, _dismiss, os.getpid(), team, keep)

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """Run once; a second caller waits for the first. Outputs are the caller's to keep."""
        check_options(options, (), "a run on the CPU")
        arrays = prepare_inputs(self._allocations, inputs)
        outputs = {
            allocation.name: aligned_array(allocation.shape, numpy_dtype(allocation.dtype))
            for allocation in self._allocations
            if allocation.kind == "output"
        }
        found = {"input": iter(arrays), "output": iter(outputs.values())}
        bases = [address(next(found[a.kind])) for a in self._allocations if a.kind in found]
        with self._running:
            if not self._finalizer.alive:
                raise DeviceError("this executor is closed: take another one by `executor()`")
            if self._poison:
                _fill([*self._arenas, *outputs.values()])
            table = numpy.array(bases, numpy.int64)
            self._program.run(self._tables.address, address(table))
        return outputs

    def close(self) -> None:
        """Wait for a run under way, then end the threads."""
        with self._running:
            self._finalizer()


def _fill(arrays: Sequence[Array]) -> None:
    for array in arrays:
        array.reshape(-1).view(numpy.uint8).fill(POISON)


def _start_worker(program: CpuProgram, engine: int, home: int, keep: object) -> threading.Thread:
    """A thread that works for an engine; it keeps the engine's memory, not its executor."""

    def work(_: object) -> None:
        program.work(engine, home)

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
        if worker is not threading.current_thread():
            worker.join()
