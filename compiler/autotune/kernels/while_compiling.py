"""Measures the kernels of a model that no database has, while the model compiles."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from time import perf_counter
from typing import Any, Protocol

from compiler.autotune.kernels.bundle import FEWEST
from compiler.autotune.kernels.merge import entries_of, merge_into
from compiler.autotune.kernels.plan import TuningLimits, TuningSubject, improved, next_candidate
from compiler.autotune.kernels.results import Header, Result
from compiler.choice.alternatives import surely_faster
from compiler.choice.judges import estimated_timing
from compiler.errors import ArtifactError, DeviceError
from compiler.kernels.building.kernel import naming
from compiler.kernels.building.select import Candidate, Provenance, Selection, best
from compiler.kernels.database import KEPT, Entry, Measured, user_file
from compiler.kernels.database.fields import Config, config_fields
from compiler.kernels.group import Group
from compiler.progress import CandidateMeasured, TuningBegan, notify
from compiler.schedule.choices import Timing, TuningRecord
from compiler.target.target import Target

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
        """The times of measured candidates, run in alternation; none if one does not run."""
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
        """The number of candidates measured, including failed ones."""
        return sum(time is not None for times in self.times.values() for time in times.values())


def search_configs(
    subjects: Sequence[TuningSubject],
    bench: TuningBench,
    seconds: float,
    clock: Callable[[], float],
    *,
    outcome: TuningFound,
    other_time: float = 0.0,
    report: Callable[[int, int], None] = lambda done, started: None,
) -> None:
    """Measure candidates until time is over or little is to be gained, then confirm the winners.

    `outcome` is filled as it goes on, so that an interrupt loses nothing; `report` gets the numbers
    of candidates that are done, and of those that were started; `other_time` is that of
    `next_candidate`.
    """
    running = 0
    done = 0
    last = clock() + seconds
    end = last - CONFIRMED_PART * seconds
    while clock() < end:
        while running < bench.width and (
            candidate := next_candidate(subjects, outcome.times, other_time)
        ):
            key, config = candidate
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


_LOG = logging.getLogger(__name__)

UNMEASURED = (Provenance.SIMILAR, Provenance.ESTIMATED)
"""Where the configs of kernels come from that no database has."""

MOST_CANDIDATES = 48
"""The most candidates of a kernel."""

NEAR_ESTIMATE = 1.6
"""How many times the least estimate a candidate may take that is not among the likely ones."""

LEAST_PATIENCE = 0.5
"""The least seconds for which the database's file is waited for."""

CountedGroups = Iterable[tuple[Group, int]]
"""Distinct groups, and how often a run launches the kernel of each."""


@dataclass(frozen=True)
class TunableMatch:
    """A kernel to tune: its group, what computes it, its candidates; the first would be built."""

    group: Group
    match: Candidate
    configs: Sequence[Any]

    @cached_property
    def by_fields(self) -> Mapping[Config, Any]:
        """The candidates by the fields that databases hold."""
        return {config_fields(config): config for config in self.configs}


class KernelBench(TuningBench, Protocol):
    """A `TuningBench` with what it has measured."""

    @property
    def results(self) -> Sequence[Result]:
        """The results in the order of time."""
        ...

    def keep(self, chosen: Mapping[str, Config]) -> None:
        """Keep the code of the candidates that are built from now on."""


class Device(Protocol):
    """A device on which the kernels of a target are measured."""

    likely: int
    """Candidates of a kernel that are measured whatever their estimates are."""

    @property
    def header(self) -> Header:
        """The origin of the results; without a device nothing can be measured."""
        ...

    def bench(
        self, matches: Mapping[str, TunableMatch], patience: float
    ) -> AbstractContextManager[KernelBench]:
        """A bench for some kernels, closed at the end.

        Raises DeviceError if the device is taken for longer than `patience` seconds.
        """
        ...


def tune_groups(
    device: Device, groups: CountedGroups, target: Target, limits: TuningLimits
) -> tuple[TuningRecord, bool]:
    """Measure the kernels of groups that no database has, heavy ones first, within limits.

    Also says whether no kernel is left that is worth measuring.
    """
    start = perf_counter()
    matches, subjects, other_time = tunable(groups, target, device.likely)
    seconds = limits.seconds(len(subjects))
    if not seconds or not device.header.device:
        return TuningRecord(), not subjects
    remaining = seconds - (perf_counter() - start)
    if remaining <= 0:
        return TuningRecord(kernels=len(subjects)), False
    outcome = _searched(device, matches, subjects, other_time, remaining)
    # The record of the kernels that were measured, and of the gain.
    uses = {subject.key: subject.uses for subject in subjects}
    pairs = [(uses[key], *pair) for key, pair in outcome.pairs.items()]
    return TuningRecord(
        kernels=len(subjects),
        tried=outcome.tried,
        improved=len(pairs),
        before=sum(count * first_time for count, first_time, _ in pairs),
        after=sum(count * winner_time for count, _, winner_time in pairs),
    ), outcome.complete


def tunable(
    groups: CountedGroups, target: Target, likely: int
) -> tuple[dict[str, TunableMatch], list[TuningSubject], float]:
    """The kernels with a choice that no database has; and the nanoseconds of a run's others."""
    matches: dict[str, TunableMatch] = {}
    uses: dict[str, int] = {}
    other_time = 0.0
    for group, count in groups:
        with naming(group):
            selection = best(group, target)
        key = selection.candidate.key
        if not key or selection.provenance not in UNMEASURED:
            other_time += count * selection.time_ns
            continue
        uses[key] = uses.get(key, 0) + count
        if key not in matches:
            configs = candidates_to_try(selection, likely)
            matches[key] = TunableMatch(group, selection.candidate, configs)
    chosen = {key: match for key, match in matches.items() if len(match.configs) >= FEWEST}
    fixed = [match.match for key, match in matches.items() if key not in chosen]
    other_time += sum(uses[candidate.key] * candidate.least_ns for candidate in fixed)
    return chosen, [_subject(match, uses[key]) for key, match in chosen.items()], other_time


def candidates_to_try(selection: Selection, likely: int) -> list[Any]:
    """The config that would be built, the likeliest others, then those of nearly their estimate."""
    match = selection.candidate
    first = dict.fromkeys([selection.config, *match.shortlist(likely)])
    near = {
        config: time
        for config in match.modelled(match.configs)
        if config not in first
        and (time := match.estimate_ns(config)) <= NEAR_ESTIMATE * match.least_ns
    }
    return [*first, *sorted(near, key=near.__getitem__)][:MOST_CANDIDATES]


def _subject(tunable: TunableMatch, uses: int) -> TuningSubject:
    match = tunable.match
    return TuningSubject(
        match.key, uses, tuple(tunable.by_fields), tuple(map(match.estimate_ns, tunable.configs))
    )


def _searched(
    device: Device,
    matches: Mapping[str, TunableMatch],
    subjects: Sequence[TuningSubject],
    other_time: float,
    seconds: float,
) -> TuningFound:
    """Measure for some seconds; the database gets what was found, however that ends."""
    notify(TuningBegan(len(subjects), seconds))
    outcome = TuningFound()
    start = perf_counter()
    try:
        with device.bench(matches, seconds) as bench:
            try:
                search_configs(
                    subjects, bench, seconds, perf_counter,
                    outcome=outcome, other_time=other_time,
                    report=lambda done, started: notify(CandidateMeasured(done, started)),
                )  # fmt: skip
            finally:
                settle(subjects, outcome)
                firsts = {subject.key: subject.configs[0] for subject in subjects}
                chosen = firsts | outcome.winners
                bench.keep(chosen)
                patience = max(LEAST_PATIENCE, seconds - (perf_counter() - start))
                keep_results(device.header, bench.results, chosen, patience)
    except DeviceError as error:
        _LOG.warning("kernels are not measured any further: %s", error)
    return outcome


def keep_results(
    header: Header, results: Sequence[Result], chosen: Mapping[str, Config], patience: float
) -> None:
    """Put kernels with several candidates that ran into the user's database, the chosen first.

    Warns if that cannot be, or if another process holds it for longer than `patience` seconds.
    """
    measured = entries_of(header, results)
    entries = [with_first(entry, results, chosen[entry.key]) for entry in measured]
    several = [entry for entry in entries if len(entry.configs) >= FEWEST]
    if not several:
        return
    try:
        path = user_file(header.arch)
        merge_into(path, several, header.device, patience)
        _LOG.info("%s: %d kernels were added", path, len(several))
    except ArtifactError as error:
        _LOG.warning("what was measured of kernels is not kept: %s", error)


def with_first(entry: Entry, results: Sequence[Result], config: Config) -> Entry:
    """An entry whose chosen config comes first: a faster one by noise does not displace it."""
    first = [
        Measured(result.config, result.warm, result.cold)
        for result in results
        if (result.key, result.config) == (entry.key, config) and not result.problem and result.warm
    ][:1]
    slower = [measured for measured in entry.configs if measured.config != config]
    return replace(entry, configs=(*first, *slower)[:KEPT])
