"""Candidates of kernels on a GPU while a model compiles: threads compile, the device measures."""

import logging
import os
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from time import perf_counter

from compiler.autotune.kernel_times import COLD_SHARE, time_in_a_run
from compiler.autotune.kernels.bundle import KernelCandidate, TunableKernel
from compiler.autotune.kernels.measure import CandidateBench, device_name
from compiler.autotune.kernels.prepare import fits, kernel_candidate, kernel_of
from compiler.autotune.kernels.results import Header, Result
from compiler.autotune.kernels.while_compiling import TunableMatch
from compiler.autotune.lock import measuring
from compiler.backends.gpu.driver import Driver
from compiler.choice.timing import Timing
from compiler.errors import DeviceError, KernelError
from compiler.kernels.building.kernel import naming
from compiler.kernels.database.fields import Config
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin, keep_cubins
from compiler.target.nvrtc import nvrtc_version
from compiler.target.target import GpuTarget

_LOG = logging.getLogger(__name__)

PER_THREAD = 1.5
"""Candidates under way for each thread that compiles: some wait for the device."""


@dataclass
class _Results:
    """The results in memory, and the ones not yet collected."""

    all: list[Result] = field(default_factory=list[Result])
    new: deque[Result] = field(default_factory=deque[Result])

    def add(self, result: Result) -> None:
        """Keep a result; say why a candidate has no time."""
        if result.problem:
            _LOG.info("a candidate of %s is left out: %s", result.key, result.problem)
        self.all.append(result)
        self.new.append(result)


@dataclass(frozen=True)
class _Built:
    """A candidate with its kernel, and later its code."""

    kernel: TunableKernel
    candidate: KernelCandidate


@dataclass(frozen=True)
class GpuDevice:
    """Measures kernels of a target on a device that is present."""

    driver: Driver
    target: GpuTarget

    likely = 16

    @property
    def header(self) -> Header:
        """The device and the compiler."""
        return Header(self.target.architecture, device_name(self.driver), nvrtc_version())

    @contextmanager
    def bench(
        self, matches: Mapping[str, TunableMatch], patience: float
    ) -> Generator["DeviceBench"]:
        """A bench for some kernels, while no other process measures."""
        with measuring(self.driver.device, patience):
            jobs = len(os.sched_getaffinity(0))
            bench = DeviceBench(self.driver, self.target, matches, jobs)
            try:
                yield bench
            finally:
                bench.close()


class DeviceBench:
    """A `KernelBench` on a device; close it at the end."""

    def __init__(
        self, driver: Driver, target: GpuTarget, matches: Mapping[str, TunableMatch], jobs: int
    ) -> None:
        self.width = max(2, round(PER_THREAD * jobs))
        self._target = target
        self._matches = matches
        self._results = _Results()
        self._bench = CandidateBench(driver, self._results, set())
        self._pool = ThreadPoolExecutor(jobs, "compiling candidates")
        self._running: dict[Future[bytes | str], _Built] = {}
        self._kernels: dict[str, TunableKernel] = {}
        self._code: dict[tuple[str, Config], tuple[KernelCandidate, bytes]] = {}

    @property
    def results(self) -> list[Result]:
        return self._results.all

    def start(self, key: str, config: Config) -> None:
        """Write a candidate's text here, as TVM holds the interpreter's lock; compile it apart."""
        tunable = self._matches[key]
        try:
            with naming(tunable.match.group):
                built = self._written(key, tunable, config)
        except KernelError as error:
            self._results.add(Result(key, config, problem=f"{error}"[:300]))
            return
        text = built.candidate.text
        target = self._target

        def compiled() -> bytes | str:
            try:
                return compile_cubin(text, target)
            except KernelError as error:
                return str(error)

        self._running[self._pool.submit(compiled)] = built

    def _written(self, key: str, tunable: TunableMatch, config: Config) -> _Built:
        """A candidate's text; KernelError where it cannot be had, or its reference could not."""
        chosen = tunable.by_fields[config]
        emitted = tunable.match.emit(chosen)
        if not fits(emitted, self._target):
            raise KernelError("it exceeds the device's shared memory or threads")
        candidate = kernel_candidate(tunable.match, chosen, emitted)
        if key not in self._kernels:
            if chosen != tunable.configs[0]:
                raise KernelError("there is nothing to compare it with")
            self._kernels[key] = kernel_of(tunable.match, emitted, 0.0, (candidate,))
        return _Built(self._kernels[key], candidate)

    def finished(self, seconds: float) -> tuple[str, Config, float] | None:
        end = perf_counter() + seconds
        while not self._results.new:
            remaining = max(0.0, end - perf_counter())
            done = wait(self._running, remaining, FIRST_COMPLETED).done
            if not done:
                return None
            for future in done:
                built = self._running.pop(future)
                if isinstance(code := future.result(), bytes):
                    self._code[built.kernel.key, built.candidate.config] = built.candidate, code
                self._bench.take(built.kernel, built.candidate, code)
        result = self._results.new.popleft()
        return result.key, result.config, time_of(result)

    def compared(self, key: str, configs: Sequence[Config]) -> list[Timing]:
        try:
            return self._bench.compared(
                self._kernels[key], [self._code[key, config] for config in configs]
            )
        except DeviceError as error:
            _LOG.warning("candidates of %s are not compared: %s", key, error)
            return []

    def keep(self, chosen: Mapping[str, Config]) -> None:
        """Keep the code of some candidates: these texts need not be compiled again."""
        codes = (self._code.get(item) for item in chosen.items())
        keep_cubins(self._target, {candidate.text: code for candidate, code in filter(None, codes)})

    def close(self) -> None:
        """Give the device's memory back; what is being compiled ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._bench.close()


def time_of(result: Result) -> float:
    """Nanoseconds of a candidate in a run: infinity for a failed one.

    Candidates without a cold time were far from the best: they count as half as fast when cold.
    """
    if result.problem or not result.warm:
        return inf
    if result.cold is None:
        return (1 + COLD_SHARE) * result.warm
    return time_in_a_run(result.warm, result.cold)
