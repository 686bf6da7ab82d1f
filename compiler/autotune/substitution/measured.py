"""The times of substituted graphs on the device: the best by the simulator are built and run."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.bindings import running
from compiler.autotune.lock import DeviceTakenError, measuring
from compiler.autotune.substitution.model import SimulatedTimes, simulator_version
from compiler.autotune.trials import ScheduleTrial, TrialError, TrialUnavailableError, trials_on
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.memory import Array
from compiler.choice.budget import Budget
from compiler.choice.judges import MeasuredJudge, Sampler, estimated_timing
from compiler.errors import DeviceError, KernelError
from compiler.schedule.choices import ChoiceSource, Timing
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule

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
    """A cost model that runs the best candidates on a device, within a budget for all."""

    driver: Driver | None = None
    prepare: Callable[[Sequence[ModuleOp]], None] = lambda _: None
    """The step that comes before candidates are finished one by one."""
    finish: Callable[[ModuleOp], Runnable] | None = None
    pipeline: str = ""
    """The pipeline by which a graph is finished, part of every question."""
    budget: Budget = field(default_factory=lambda: Budget(1.0))

    source: ClassVar[ChoiceSource] = "measured"

    @property
    def judged_by(self) -> str:
        """The name of what decides: the device, in this version of the code."""
        assert self.driver is not None
        return f"measured on {self.driver.device} after {self.pipeline} {simulator_version()}"

    def times(self, ways: Mapping[str, ModuleOp]) -> Mapping[str, Timing | str]:
        """The times of the graph as it was, which comes first, and of the best by the simulator.

        The others count as slower than that graph by as much as in the simulator, if at all.
        """
        assert self.driver is not None
        simulated = self.simulated({name: module.clone() for name, module in ways.items()})
        baseline = next(iter(ways))
        contending = contenders(simulated)
        slower = {name: max(1.0, time / simulated[baseline]) for name, time in simulated.items()}
        nothing = {name: estimated_timing(simulated[baseline] * s) for name, s in slower.items()}
        if not contending:
            return nothing
        compiled, failures = self._compiled({name: ways[name] for name in (baseline, *contending)})
        try:
            with measuring(self.driver.device, self.budget.seconds) as waited:
                timings = MeasuredJudge(self._opened, self.budget.after(waited)).times(compiled)
        except (TrialError, TrialUnavailableError, DeviceTakenError) as error:
            _LOG.warning("the graph stays as it was, as it cannot be measured: %s", error)
            return nothing
        failures |= {name: time for name, time in timings.items() if isinstance(time, str)}
        for reason in failures.values():
            _LOG.warning("a candidate for substitution is left out: %s", reason)
        first = timings[baseline]
        assert isinstance(first, Timing)
        unmeasured = {name: estimated_timing(first.median * s) for name, s in slower.items()}
        return {**unmeasured, **timings, **failures}

    def _compiled(
        self, modules: Mapping[str, ModuleOp]
    ) -> tuple[dict[str, Runnable], dict[str, str]]:
        """The compiled graphs, and why others could not be; the first must be one of them."""
        assert self.finish is not None
        self.prepare([*modules.values()])
        compiled = dict[str, Runnable]()
        failures = dict[str, str]()
        for name, module in modules.items():
            try:
                compiled[name] = self.finish(module)
            except (DeviceError, KernelError) as error:
                if not compiled:
                    raise
                failures[name] = str(error)
        return compiled, failures

    def _opened(self, graph: Runnable) -> AbstractContextManager[Sampler]:
        """A compiled graph on the device, once a trial of its schedule has ended."""
        assert self.driver is not None
        trial = ScheduleTrial(graph.schedule, graph.kernels, graph.weights, graph.limits)
        trials_on(self.driver).schedule(trial, self.budget.seconds)
        program = (graph.schedule, graph.kernels, graph.weights)
        loaded = GpuExecutable.load(self.driver, *program, index_limits=graph.limits)
        return running(loaded.executor(mode="graph", pdl=graph.pdl))


def contenders(simulated: Mapping[str, float]) -> list[str]:
    """The candidates to measure, by simulated times, the first of which is the graph's own.

    The fastest of those that differ by more than a thousandth.
    """
    baseline, *candidates = simulated
    chosen: list[str] = []
    for name in sorted(candidates, key=simulated.__getitem__):
        distinct = not chosen or simulated[name] > 1.001 * simulated[chosen[-1]]
        if simulated[name] <= HOPELESS * simulated[baseline] and distinct:
            chosen.append(name)
    return chosen[:MOST_MEASURED]
