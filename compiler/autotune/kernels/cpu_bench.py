"""Candidates of kernels on a CPU while a model compiles: processes compile, this one measures.

Times are of the thread, not of the clock, and the least of several runs: other work on the machine
hardly shows. Before each run other data fill the caches, as those of the model's other kernels do.
"""

import logging
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter, thread_time_ns

import numpy as np

from compiler.autotune.kernels.bundle import OperandBuffer
from compiler.autotune.kernels.measure import agree, random_operand, unpacked_bytes
from compiler.autotune.kernels.prepare import operand_buffer
from compiler.autotune.kernels.results import Header, Result
from compiler.autotune.kernels.while_compiling import MOST_CANDIDATES, CountedGroups, TunableMatch
from compiler.backends.cpu.bound import BoundKernel
from compiler.backends.memory import POISON, Array, aligned_bytes, aligned_copy
from compiler.choice.timing import MOST_SECONDS, Timing, time_all
from compiler.errors import FlowloomError, KernelError
from compiler.kernels.building import KeptKernels, KernelCache
from compiler.kernels.building.workers import WorkerPool
from compiler.kernels.cpu.host import database_name, host_cpu
from compiler.kernels.cpu.machine import second_cache_bytes
from compiler.kernels.database.fields import Config
from compiler.kernels.group import Group
from compiler.kernels.versions import llvm_version
from compiler.schedule.kernels import KernelSpec
from compiler.target.caches import last_cache_bytes
from compiler.target.target import CpuTarget

_LOG = logging.getLogger(__name__)

PER_WORKER = 1.5
"""Candidates under way for each process that compiles: some wait to be measured."""

CANDIDATE_SAMPLES = 12
SAMPLE_SECONDS = 0.03
"""The most runs of a candidate, and the seconds after which it is not run again."""

CPU_GIVEN_UP = 1.5
"""A candidate that takes this many times the best is run only twice."""

CPU_COMPARED_SECONDS = 0.2
CPU_COMPARED_SAMPLES = 40
"""How long, and how often at most, candidates are run in alternation to compare them."""

ROUNDING = 1e-4
"""How far from the first candidate's results those of others may be, against the largest."""

KEPT_BYTES = 1 << 30
"""The most bytes of operands that are kept for further candidates."""


@dataclass(frozen=True)
class HostCpu:
    """Measures kernels of a model on this machine's CPU, if that is what they are for.

    The `cache` gets all that is built. The model reads `between` bytes before it runs one again.
    """

    target: CpuTarget
    cache: KernelCache | None = None
    between: int = 0

    likely = MOST_CANDIDATES

    @property
    def header(self) -> Header:
        """The CPU and the compiler."""
        return Header(database_name(self.target), host_cpu(self.target), llvm_version())

    @contextmanager
    def bench(self, matches: Mapping[str, TunableMatch], patience: float) -> Generator["CpuBench"]:
        """A bench for some kernels, with a process for each core; it waits for no other process."""
        jobs = len(os.sched_getaffinity(0))
        bench = CpuBench(matches, self.target, jobs, self.cache, between=self.between)
        try:
            yield bench
        finally:
            bench.close()


class CpuBench:
    """A `KernelBench` on this machine's CPU; close it at the end."""

    def __init__(
        self,
        matches: Mapping[str, TunableMatch],
        target: CpuTarget,
        jobs: int,
        cache: KernelCache | None = None,
        *,
        between: int = 0,
    ) -> None:
        """Measure kernels of a model that reads `between` bytes before it runs one again."""
        self.width = max(2, round(PER_WORKER * jobs))
        self.results: list[Result] = []
        self.built: dict[tuple[str, Config], KernelSpec] = {}
        self._matches = matches
        self._target = target
        self._kept = KeptKernels(cache, target)
        self._workers = WorkerPool.of(jobs)
        self._pool = ThreadPoolExecutor(jobs, "compiling candidates")
        self._running: dict[Future[KernelSpec | str], tuple[str, Config]] = {}
        self._ready: deque[tuple[str, Config, KernelSpec | str]] = deque()
        self._begun = set[str]()
        self._waiting: dict[str, list[tuple[str, Config, KernelSpec | str]]] = {}
        cache_bytes = max(second_cache_bytes(target), min(between, last_cache_bytes()))
        self._runner = CandidateRunner(2 * cache_bytes)
        with self._workers.one():  # time is for measuring, not for starting Python
            pass

    def start(self, key: str, config: Config) -> None:
        """Begin to compile a candidate in a process, if the cache has it not."""
        tunable = self._matches[key]
        group = tunable.group
        text = tunable.match.config_text(tunable.by_fields[config])
        if cached := self._kept.with_config(group, text):
            self._arrange(key, config, cached)
            return

        def built() -> KernelSpec | str:
            try:
                with self._workers.one() as worker:
                    kernel = worker.build(group, self._target, config)
                self._kept.keep(group, kernel, text)
                return kernel
            except KernelError as error:
                return str(error)

        self._running[self._pool.submit(built)] = key, config

    def finished(self, seconds: float) -> tuple[str, Config, float] | None:
        end = perf_counter() + seconds
        while not self._ready:
            remaining = max(0.0, end - perf_counter())
            done = wait(self._running, remaining, FIRST_COMPLETED).done
            if not done:
                return None
            for future in done:
                self._arrange(*self._running.pop(future), future.result())
        key, config, built = self._ready.popleft()
        result = self._measured(key, config, built)
        if result.problem:
            _LOG.info("a candidate of %s is left out: %s", key, result.problem)
        self.results.append(result)
        return key, config, inf if result.problem or result.warm is None else result.warm

    def _arrange(self, key: str, config: Config, built: KernelSpec | str) -> None:
        """Put a candidate in line, once the first of its kernel is, whose results are compared."""
        first = config == next(iter(self._matches[key].by_fields))
        if not first and key not in self._begun:
            self._waiting.setdefault(key, []).append((key, config, built))
            return
        self._ready.append((key, config, built))
        if first:
            self._begun.add(key)
            self._ready.extend(self._waiting.pop(key, ()))

    def _measured(self, key: str, config: Config, built: KernelSpec | str) -> Result:
        blank = Result(key, config, self._matches[key].match.version)
        if isinstance(built, str):
            return replace(blank, problem=built[:300])
        self.built[key, config] = built
        try:
            time = self._runner.measure(key, self._matches[key].group, built)
        except FlowloomError as error:
            return replace(blank, problem=f"{error}"[:300])
        if time is None:
            return replace(blank, problem="wrong: the results differ from the first's")
        return replace(blank, warm=time)

    def compared(self, key: str, configs: Sequence[Config]) -> list[Timing]:
        try:
            built = [self.built[key, config] for config in configs]
            return self._runner.compare(self._matches[key].group, built)
        except FlowloomError as error:
            _LOG.warning("candidates of %s are not compared: %s", key, error)
            return []

    def keep(self, chosen: Mapping[str, Config]) -> None:
        """The cache has all kernels that were built already."""

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._workers.stop()


def weight_bytes(groups: CountedGroups) -> int:
    """The bytes of the weights of all launches, each of which has its own."""
    return sum(
        count * info.nbytes
        for group, count in groups
        for info, weight in zip(group.reads, group.weights, strict=True)
        if weight
    )


class CandidateRunner:
    """Runs candidates on random operands and compares what they write with the first ones.

    Before each run so many bytes of other data are read.
    """

    def __init__(self, other_bytes: int) -> None:
        self._others = np.ones(other_bytes // 8)  # untouched zeros would share one page
        self._references: dict[str, list[Array]] = {}
        self._best: dict[str, float] = {}
        self._operands: OrderedDict[tuple[OperandBuffer, int], Array] = OrderedDict()

    def measure(self, key: str, group: Group, spec: KernelSpec) -> float | None:
        """The least nanoseconds of a run; None for one whose results differ.

        Raises KernelError for a run that takes too long.
        """
        kernel, writes = self._bound(group, spec)
        for write in writes:
            # the memory may still hold an earlier candidate's right results
            write.fill(POISON)
        start = thread_time_ns()
        if not kernel.run_within(MOST_SECONDS):
            raise KernelError(f"a run takes more than {MOST_SECONDS:g} s")
        once = float(thread_time_ns() - start)
        reference = self._references.setdefault(key, [write.copy() for write in writes])
        outputs = zip(writes, reference, group.writes, strict=True)
        if not all(
            agree(output, expected, info.dtype, ROUNDING) for output, expected, info in outputs
        ):
            return None
        long = once >= 1e9 * SAMPLE_SECONDS
        time = once if long else self.least(kernel, self._best.get(key, inf))
        self._best[key] = min(time, self._best.get(key, inf))
        return time

    def compare(self, group: Group, specs: Sequence[KernelSpec]) -> list[Timing]:
        """The times of a group's kernels, run in alternation."""
        bound = [self._bound(group, spec)[0] for spec in specs]
        runs = {str(number): self._timed(kernel) for number, kernel in enumerate(bound)}
        names = tuple(runs)
        times = time_all(
            runs, CPU_COMPARED_SECONDS, perf_counter, keep=names, samples=CPU_COMPARED_SAMPLES
        )
        return [times[name] for name in names]

    def least(self, kernel: BoundKernel, best: float) -> float:
        """The least nanoseconds of some runs; of few where the best candidate takes far less."""
        run = self._timed(kernel)
        end = perf_counter() + SAMPLE_SECONDS
        times = list[float]()
        while len(times) < CANDIDATE_SAMPLES:
            times.append(run())
            hopeless = len(times) > 1 and min(times) > CPU_GIVEN_UP * best
            if len(times) > 1 and (hopeless or perf_counter() >= end):
                break
        return min(times)

    def _timed(self, kernel: BoundKernel) -> Callable[[], float]:
        """A function that runs a kernel after other data, and gives its nanoseconds."""

        def run() -> float:
            self._others.sum()
            start = thread_time_ns()
            kernel.run()
            return float(thread_time_ns() - start)

        return run

    def _bound(self, group: Group, spec: KernelSpec) -> tuple[BoundKernel, list[Array]]:
        packings = spec.packings or ("",) * group.inputs
        reads = [
            self._operand(operand_buffer(info, packing), number)
            for number, (info, packing) in enumerate(zip(group.reads, packings, strict=True))
        ]
        writes = [aligned_bytes(unpacked_bytes(operand_buffer(info))) for info in group.writes]
        return BoundKernel(spec, reads, writes), writes

    def _operand(self, buffer: OperandBuffer, number: int) -> Array:
        """A random operand, one that was made before if it is kept."""
        if (buffer, number) not in self._operands:
            operand = aligned_copy(random_operand(buffer, number))
            held_bytes = sum(array.nbytes for array in self._operands.values())
            while self._operands and held_bytes + operand.nbytes > KEPT_BYTES:
                held_bytes -= self._operands.popitem(last=False)[1].nbytes
            self._operands[buffer, number] = operand
        return self._operands[buffer, number]
