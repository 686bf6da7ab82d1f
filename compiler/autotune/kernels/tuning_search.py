"""The loop that measures candidates of kernels within a time, on any bench."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from compiler.autotune.kernels.plan import TuningSubject, improved, next_candidate
from compiler.choice.alternatives import surely_faster
from compiler.choice.judges import estimated_timing
from compiler.kernels.database.fields import Config
from compiler.schedule.choices import Timing

CONFIRMED_PART = 0.1
"""The part of the time that is left for comparing winners with what they replace."""


UNCONFIRMED = 0.1
"""The part of its time that one run of a candidate may be wrong by: it is what a candidate must
save that could not be compared with the first in turns any more."""


class TuningBench(Protocol):
    """Compiles candidates in the background, and measures each when it is compiled."""

    @property
    def width(self) -> int:
        """The candidates that should be under way at once."""
        ...

    def start(self, key: str, config: Config) -> None:
        """Begin to compile a candidate."""

    def finished(self, seconds: float) -> tuple[str, Config, float] | None:
        """The next candidate that was measured, and its nanoseconds: infinity for one that failed.

        None where there is none within some seconds.
        """

    def compared(self, key: str, configs: Sequence[Config]) -> list[Timing]:
        """The times of measured candidates, taken in turns; none where one does not run."""
        ...


@dataclass
class TuningFound:
    """The times of candidates by key, and the winners: configs surely faster than the first ones.

    `pairs` are the times of what was replaced and of the winner; `compared` were timed in turns.
    It is `complete` if it ended as little was to be gained, not as time was over.
    """

    times: dict[str, dict[Config, float | None]] = field(
        default_factory=dict[str, dict[Config, float | None]]
    )
    winners: dict[str, Config] = field(default_factory=dict[str, Config])
    pairs: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    compared: set[str] = field(default_factory=set[str])
    complete: bool = False

    @property
    def tried(self) -> int:
        """How many candidates were measured, those that failed included."""
        return sum(time is not None for times in self.times.values() for time in times.values())


def search_configs(
    subjects: Sequence[TuningSubject],
    bench: TuningBench,
    seconds: float,
    clock: Callable[[], float],
    *,
    outcome: TuningFound,
    others: float = 0.0,
    report: Callable[[int, int], None] = lambda done, started: None,
) -> None:
    """Measure candidates until time is over or little is to be gained, then confirm the winners.

    `outcome` is filled as it goes on, so that an interrupt loses nothing; `report` gets the numbers
    of candidates that are done, and of those that were started. `others` as in `next_candidate`.
    """
    running = 0
    done = 0
    last = clock() + seconds
    end = last - CONFIRMED_PART * seconds
    while clock() < end:
        while running < bench.width and (asked := next_candidate(subjects, outcome.times, others)):
            key, config = asked
            outcome.times.setdefault(key, {})[config] = None
            bench.start(key, config)
            running += 1
        outcome.complete = not running
        if outcome.complete:
            break
        measured = bench.finished(end - clock())
        if measured is None:
            break
        key, config, time = measured
        outcome.times[key][config] = time
        running -= 1
        done += 1
        report(done, done + running)
    for subject, config in improved(subjects, outcome.times):
        if clock() >= last:
            break
        confirm(bench, subject, config, outcome)


def confirm(
    bench: TuningBench, subject: TuningSubject, config: Config, outcome: TuningFound
) -> None:
    """Let a candidate win if it is surely faster than the first, in turns with it.

    It wins over a first one that failed: that could not be built.
    """
    outcome.compared.add(subject.key)
    if outcome.times[subject.key][subject.configs[0]] == inf:
        outcome.winners[subject.key] = config
        return
    timings = bench.compared(subject.key, [subject.configs[0], config])
    if timings and surely_faster(timings[1], timings[0]):
        outcome.winners[subject.key] = config
        outcome.pairs[subject.key] = (timings[0].median, timings[1].median)


def settle(subjects: Sequence[TuningSubject], outcome: TuningFound) -> None:
    """Let candidates win that are faster by far, where there was no time to compare them."""
    for subject, config in improved(subjects, outcome.times):
        times = outcome.times[subject.key]
        first = times[subject.configs[0]]
        best = times[config]
        if subject.key in outcome.compared or first is None or best is None:
            continue
        once = estimated_timing(best, UNCONFIRMED)
        if first < inf and surely_faster(once, estimated_timing(first)):
            outcome.winners[subject.key] = config
            outcome.pairs[subject.key] = (first, best)
