"""The next candidate to measure while a model compiles, by the times so far: pure functions.

The kernel that is expected to gain most comes first: its share of a run, times what one more
candidate of a kernel gains on average, which falls with each one that was not better. Of a kernel
come first the likeliest candidates, then those nearest to its best one (a descent).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from compiler.kernels.database.fields import Config

LIKELIEST = 4
"""Candidates of a kernel that are taken in their order, before those nearest to the best."""

GAIN = 0.06
"""The part of a kernel's time that one more candidate gains."""

DECAY = 0.82
"""The share of that left after each candidate without a gain: 1,586 kernels measured on an H200
gained 0.046 after none, 0.015 after five."""

LEAST_GAIN = 3e-4
"""The part of a run that a candidate must be expected to gain, to be measured."""

SECONDS_EACH = 0.8
MOST_TUNING_SECONDS = 5.0
"""Seconds of measuring for each kernel that no database has, and at most for all, by default on a
GPU. On a CPU nothing is measured by default: it would take longer than all else."""

KERNELS_PART = 0.5
"""The part of a given budget that kernels may take; schedules get the rest."""

CandidateTimes = Mapping[Config, float | None]
"""Nanoseconds of a kernel's candidates in the order of their start: None while they are under way,
infinity if they failed."""


@dataclass(frozen=True, slots=True)
class TuningSubject:
    """A kernel that no database has: how often a run has it, its candidates, their estimates.

    The first candidate is the one that is built without measuring, the likeliest others follow;
    estimates are in nanoseconds.
    """

    key: str
    uses: int
    configs: tuple[Config, ...]
    estimates: tuple[float, ...]

    def time(self, times: CandidateTimes) -> float:
        """The nanoseconds that the kernel takes in a run with its best candidate so far."""
        return self.uses * min(measured(times), default=self.estimates[0])

    def expected_gain(self, times: CandidateTimes) -> float:
        """The nanoseconds of a run that one more candidate should gain; 0 if there is none."""
        if len(times) == len(self.configs):
            return 0.0
        # The candidates after the best one that were started, which did not gain or may not.
        best = inf
        since = 0
        for number, time in enumerate(times.values()):
            if time is not None and time < best:
                best = time
                since = 0
            else:
                since += number > 0
        return self.time(times) * GAIN * DECAY**since

    def next_config(self, times: CandidateTimes) -> Config:
        """The candidate to measure next: the likeliest, later the nearest to the best."""
        untried = [config for config in self.configs if config not in times]
        if len(times) < LIKELIEST or not any(measured(times)):
            return untried[0]
        best = best_config(self, times)
        return min(untried, key=lambda config: differing_fields(config, best))


def measured(times: CandidateTimes) -> Iterable[float]:
    """The times of candidates that ran and were right."""
    return (time for time in times.values() if time is not None and time < inf)


def best_config(subject: TuningSubject, times: CandidateTimes) -> Config:
    """The fastest candidate so far, the first of equals; the first of all without times."""
    timed = {config: time for config, time in times.items() if time is not None and time < inf}
    return min(timed, key=timed.__getitem__, default=subject.configs[0])


def differing_fields(first: Config, second: Config) -> int:
    """How many fields of two configs differ."""
    first_fields = dict(first)
    second_fields = dict(second)
    return sum(
        first_fields.get(name) != second_fields.get(name)
        for name in {*first_fields, *second_fields}
    )


def next_candidate(
    subjects: Sequence[TuningSubject], times: Mapping[str, CandidateTimes], other_time: float = 0.0
) -> tuple[str, Config] | None:
    """The key and config to measure next, or None where the gain to expect is small.

    `other_time` is the nanoseconds of a run's other kernels. Kernels are first measured as they
    would be built, heavy ones first, so that times decide which of them are heavy.
    """
    total = other_time + sum(subject.time(times.get(subject.key, {})) for subject in subjects)
    gains = {s.key: s.expected_gain(times.get(s.key, {})) for s in subjects}
    worth = [subject for subject in subjects if gains[subject.key] > LEAST_GAIN * total]
    if not worth:
        return None
    best = min(worth, key=lambda s: (s.key in times, -gains[s.key], s.key))
    return best.key, best.next_config(times.get(best.key, {}))


def improved(
    subjects: Sequence[TuningSubject], times: Mapping[str, CandidateTimes]
) -> list[tuple[TuningSubject, Config]]:
    """The kernels with a faster candidate than the first, the largest gains first."""
    gains: list[tuple[float, TuningSubject, Config]] = []
    for subject in subjects:
        kernel_times = times.get(subject.key, {})
        first = kernel_times.get(subject.configs[0])
        best = best_config(subject, kernel_times)
        if first is not None and best != subject.configs[0] and kernel_times:
            gains.append((subject.uses * (first - (kernel_times[best] or inf)), subject, best))
    ranked = sorted(gains, key=lambda item: (-item[0], item[1].key))
    return [(subject, best) for gain, subject, best in ranked if gain > 0]


@dataclass(frozen=True, slots=True)
class TuningLimits:
    """The seconds that measuring kernels may take: `each` for every one, and `most` for all.

    Where `shared`, schedules have the less for it.
    """

    each: float = SECONDS_EACH
    most: float = MOST_TUNING_SECONDS
    shared: bool = False

    @classmethod
    def of(cls, budget: float | None) -> "TuningLimits":
        """The limits of a budget in seconds, or those without one."""
        return cls() if budget is None else cls(inf, KERNELS_PART * budget, True)

    @classmethod
    def on_cpu(cls, budget: float | None) -> "TuningLimits":
        """The limits on a CPU, where schedules take nothing of a budget; without one they are 0."""
        return cls(inf, budget or 0.0)

    def seconds(self, kernels: int) -> float:
        """The seconds for so many kernels."""
        return min(self.most, self.each * kernels) if kernels else 0.0

    def after(self, seconds: float, count: int = 1) -> "TuningLimits":
        """The limits of each of some compilations when some seconds were spent."""
        return replace(self, most=max(0.0, self.most - seconds) / count)

    def left(self, budget: float, seconds: float) -> float:
        """The seconds of a budget that schedules have when kernels took some."""
        return max(KERNELS_PART * budget, budget - seconds) if self.shared else budget
