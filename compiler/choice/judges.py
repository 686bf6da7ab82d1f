"""Judges of alternatives: recorded times, the estimates of a model, and runs on a device."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar, Generic, TypeVar

from compiler.choice.budget import Budget
from compiler.choice.timing import time_all
from compiler.errors import DeviceError, KernelError
from compiler.schedule.choices import ChoiceSource, Timing

T = TypeVar("T")

UNCERTAINTY = 0.05
"""The part of its time that the simulator may be wrong by, in favour of a way.

Of the substitutions in 26 networks in two precisions it saw gains of 5 % or more in 15; the 14
graphs of these that were measured on an H200 were all faster.
"""

Sampler = Callable[[], float]
"""Runs a way once and returns the nanoseconds that it took."""


def estimated_timing(time: float, uncertainty: float = 0.0) -> Timing:
    """An estimate in ns, with an interval for a truth that may be off by this part of the time.

    It has no samples.
    """
    return Timing(time, time * (1 - uncertainty), time / (1 - uncertainty), 0)


@dataclass(frozen=True)
class RecordedJudge:
    """Judges by times that were measured before, whatever the ways are."""

    timings: Mapping[str, Timing]

    source: ClassVar[ChoiceSource] = "measured"

    def times(self, ways: Mapping[str, object]) -> Mapping[str, Timing | str]:
        """The recorded time of each way; KeyError if the baseline has none."""
        recorded = {name: self.timings.get(name, "no time was recorded") for name in ways}
        return recorded | {(baseline := next(iter(ways))): self.timings[baseline]}


@dataclass(frozen=True)
class PredictedJudge(Generic[T]):
    """Judges by estimates in ns; the same in every process and without a device."""

    estimate: Callable[[T], float]
    uncertainty: float = UNCERTAINTY

    source: ClassVar[ChoiceSource] = "model"

    def times(self, ways: Mapping[str, T]) -> Mapping[str, Timing | str]:
        """The estimate of each way."""
        return {n: estimated_timing(self.estimate(w), self.uncertainty) for n, w in ways.items()}


@dataclass(frozen=True)
class MeasuredJudge(Generic[T]):
    """Judges by runs on a device, in turns so that drift hits all alike, within a budget.

    `opened` gives a way's sampler and releases what it holds; a way for which that raises
    DeviceError or KernelError is skipped. At most `samples` are taken of each.
    """

    opened: Callable[[T], AbstractContextManager[Sampler]]
    budget: Budget
    samples: int = 200

    source: ClassVar[ChoiceSource] = "measured"

    def times(self, ways: Mapping[str, T]) -> Mapping[str, Timing | str]:
        """The times of the ways, or why they were not run; an error of the baseline is raised."""
        baseline = next(iter(ways))
        failures = dict[str, str]()
        samplers: dict[str, Sampler] = {}
        # all stay loaded, as they run in alternation
        with ExitStack() as stack:
            for name, way in ways.items():
                try:
                    samplers[name] = stack.enter_context(self.opened(way))
                except (DeviceError, KernelError) as error:
                    if name == baseline:
                        raise
                    failures[name] = str(error)
            timings = time_all(
                samplers, self.budget.seconds, perf_counter, keep=(baseline,), samples=self.samples
            )
        untimed = dict.fromkeys(samplers.keys() - timings.keys(), "time was over")
        return {**timings, **failures, **untimed}
