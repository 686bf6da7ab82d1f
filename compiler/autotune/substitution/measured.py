"""The times of substituted graphs on the device: the best by the simulator are built and run."""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import inf
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.bindings import timed_run
from compiler.autotune.lock import measuring
from compiler.autotune.substitution.model import SimulatedTimes, simulator_version
from compiler.autotune.timing import Timing, time_all
from compiler.autotune.trials import ScheduleTrial, TrialError, TrialUnavailableError, trials_on
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.executor import GpuExecutor
from compiler.backends.memory import Array
from compiler.errors import DeviceError, KernelError
from compiler.schedule import KernelSpec, Schedule

_LOG = logging.getLogger(__name__)

MOST_MEASURED = 3
"""At most so many candidates are built and run, besides the graph as it was."""

HOPELESS = 1.02
"""Candidates are not built whose simulated time is more than this many times the graph's."""


@dataclass(frozen=True)
class Runnable:
    """A whole graph, compiled and scheduled."""

    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    weights: Mapping[str, Array]
    pdl: bool
    limits: Mapping[str, int]
    """The limits of the inputs that are indices."""


@dataclass
class MeasuredTimes(SimulatedTimes):
    """A cost model that runs the best candidates on a device, for `seconds` together."""

    driver: Driver | None = None
    prepare: Callable[[Sequence[ModuleOp]], None] = lambda _: None
    """The step that comes before candidates are finished one by one."""
    finish: Callable[[ModuleOp], Runnable] | None = None
    pipeline: str = ""
    """The pipeline by which a graph is finished, part of every question."""
    seconds: float = 1.0
    margin: float = 0.01

    @property
    def judged_by(self) -> str:
        """The name of what decides: the device, in this version of the code."""
        assert self.driver is not None
        return f"measured on {self.driver.device} after {self.pipeline} {simulator_version()}"

    def times(self, modules: Sequence[ModuleOp]) -> Sequence[float]:
        """Nanoseconds: for the last, the graph as it was, the median; for others the upper end of
        its interval, so that one that is below is surely faster; infinite where that failed. Those
        that are not measured take longer by as much as in the simulator, if at all."""
        simulated = SimulatedTimes.times(self, [module.clone() for module in modules])
        last = len(modules) - 1
        chosen = [*contenders(simulated), last]
        if len(chosen) == 1:
            return [max(time, simulated[last]) for time in simulated]
        try:
            timings = self._timed({number: modules[number] for number in chosen})
        except (TrialError, TrialUnavailableError) as error:
            _LOG.warning("the graph stays as it was, as it cannot be measured: %s", error)
            return [max(time, simulated[last]) for time in simulated]
        before = timings[last].median
        found = [before * max(1.0, time / simulated[last]) for time in simulated]
        for number in chosen[:-1]:
            found[number] = timings[number].high if number in timings else inf
        return found

    def _timed(self, modules: Mapping[int, ModuleOp]) -> Mapping[int, Timing]:
        """The times of modules by number; the last is the graph as it was, which must run."""
        assert self.driver is not None
        last, compiled = max(modules), self._compiled(modules)
        runs: dict[str, Callable[[], float]] = {}
        with measuring(self.driver.device), ExitStack() as stack:
            for number, made in compiled.items():
                with _left_out(number != last):
                    parts = (made.schedule, made.kernels, made.weights, made.limits)
                    trials_on(self.driver).schedule(ScheduleTrial(*parts), self.seconds)
                    executor = self._opened(made)
                    stack.callback(executor.close)
                    runs[str(number)] = timed_run(executor)
            timings = time_all(runs, self.seconds, perf_counter, keep=[*runs])
        return {int(number): timing for number, timing in timings.items()}

    def _compiled(self, modules: Mapping[int, ModuleOp]) -> Mapping[int, Runnable]:
        assert self.finish is not None
        self.prepare([*modules.values()])
        found: dict[int, Runnable] = {}
        for number, module in modules.items():
            with _left_out(number != max(modules)):
                found[number] = self.finish(module)
        return found

    def _opened(self, made: Runnable) -> GpuExecutor:
        """A compiled graph on the device."""
        assert self.driver is not None
        parts = (made.schedule, made.kernels, made.weights)
        loaded = GpuExecutable.load(self.driver, *parts, index_limits=made.limits)
        return loaded.executor(mode="graph", pdl=made.pdl)


@contextmanager
def _left_out(optional: bool) -> Generator[None, None, None]:
    """Warn of an error of a candidate instead of raising it, if there are others."""
    try:
        yield
    except TrialUnavailableError:
        raise
    except (DeviceError, KernelError) as error:
        if not optional:
            raise
        _LOG.warning("a candidate for substitution is left out: %s", error)


def contenders(simulated: Sequence[float]) -> list[int]:
    """The candidates to measure by their simulated times, of which the last is the graph's.

    The fastest of those that differ by more than a thousandth.
    """
    *others, before = simulated
    ranked = sorted(range(len(others)), key=others.__getitem__)
    found: list[int] = []
    for number in ranked:
        distinct = not found or others[number] > 1.001 * others[found[-1]]
        if others[number] <= HOPELESS * before and distinct and len(found) < MOST_MEASURED:
            found.append(number)
    return found
