"""Measures the kernels of a model that no database has, while the model compiles."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from time import perf_counter

from compiler.autotune.kernels.bundle import FEWEST
from compiler.autotune.kernels.device_bench import DeviceBench, TunableMatch, time_of
from compiler.autotune.kernels.measure import device_name
from compiler.autotune.kernels.merge import entries_of, merge_into
from compiler.autotune.kernels.plan import TuningLimits, TuningSubject
from compiler.autotune.kernels.results import Header, Result
from compiler.autotune.kernels.tuning_search import TuningFound, search_configs, settle
from compiler.autotune.lock import measuring
from compiler.backends.gpu.driver import Driver
from compiler.errors import ArtifactError, DeviceError
from compiler.kernels.database import KEPT, Entry, Measured, user_file
from compiler.kernels.database.fields import Config, config_fields
from compiler.kernels.gpu.compilers.nvrtc import keep_cubins
from compiler.kernels.gpu.select import Provenance, Selection, best
from compiler.kernels.group import Group
from compiler.progress import CandidateMeasured, TuningBegan, notify
from compiler.schedule.choices import TuningRecord
from compiler.target.nvrtc import nvrtc_version
from compiler.target.target import GpuTarget

_LOG = logging.getLogger(__name__)

UNMEASURED = (Provenance.SIMILAR, Provenance.ESTIMATED)
"""Where the configs of kernels come from that no database has."""

SHORTLIST, CANDIDATES, NEAR = 16, 48, 1.6
"""The likeliest candidates of a kernel, the most of all, and how many times the least estimate the
others may have."""

CountedGroups = Iterable[tuple[Group, int]]
"""Distinct groups, and how often a run launches the kernel of each."""


def tune_groups(
    driver: Driver, groups: CountedGroups, target: GpuTarget, limits: TuningLimits
) -> tuple[TuningRecord, bool]:
    """Measure the kernels of groups that no database has, heavy ones first, within limits.

    Also says whether no kernel is left that is worth measuring.
    """
    start = perf_counter()
    matches, subjects, others = tunable(groups, target)
    end = start + limits.seconds(len(subjects))
    if (left := end - perf_counter()) <= 0:
        return TuningRecord(kernels=len(subjects)), not subjects
    found = _searched(driver, target, matches, subjects, others, left)
    return tuning_record(subjects, found), found.complete


def tunable(
    groups: CountedGroups, target: GpuTarget
) -> tuple[dict[str, TunableMatch], list[TuningSubject], float]:
    """The kernels with a choice that no database has; and the nanoseconds of a run's others."""
    matches: dict[str, TunableMatch] = {}
    uses: dict[str, int] = {}
    others = 0.0
    for group, count in groups:
        found = best(group, target)
        if found is None or not found.candidate.key or found.provenance not in UNMEASURED:
            others += count * (_known_time(found) if found else 0.0)
            continue
        key = found.candidate.key
        uses[key] = uses.get(key, 0) + count
        if key not in matches:
            matches[key] = TunableMatch(found.candidate, candidates_to_try(found))
    chosen = {key: match for key, match in matches.items() if len(match.configs) >= FEWEST}
    return chosen, [_subject(match, uses[key]) for key, match in chosen.items()], others


def _known_time(found: Selection) -> float:
    """Nanoseconds of a kernel that is not measured now."""
    entry = found.candidate.entry
    return entry.ranked[0].warm if entry else 1e3 * found.candidate.estimate_of(found.config)


def candidates_to_try(found: Selection) -> list[object]:
    """The config that would be built, the likeliest others, then those of nearly their estimate."""
    match = found.candidate
    likely = dict.fromkeys([found.config, *match.shortlist(SHORTLIST)])
    modelled = {
        config: time
        for config in match.configs
        if match.template.is_modelled(config) and config not in likely
        if (time := match.estimate_of(config)) <= NEAR * match.estimate_us
    }
    ranked = sorted(modelled, key=lambda config: modelled[config])
    return [*likely, *ranked][:CANDIDATES]


def _subject(found: TunableMatch, uses: int) -> TuningSubject:
    match = found.match
    return TuningSubject(
        match.key,
        uses,
        tuple(config_fields(config) for config in found.configs),
        tuple(1e3 * match.estimate_of(config) for config in found.configs),
    )


def _searched(
    driver: Driver,
    target: GpuTarget,
    matches: Mapping[str, TunableMatch],
    subjects: Sequence[TuningSubject],
    others: float,
    seconds: float,
) -> TuningFound:
    """Measure for some seconds; the database gets what was found, however that ends."""
    notify(TuningBegan(len(subjects), seconds))
    found, jobs = TuningFound(), len(os.sched_getaffinity(0))
    header = Header(target.architecture, device_name(driver), nvrtc_version())
    try:
        with measuring(driver.device):
            bench = DeviceBench(driver, matches, jobs)
            try:
                search_configs(
                    subjects, bench, seconds, perf_counter,
                    found=found, others=others,
                    report=lambda done, started: notify(CandidateMeasured(done, started)),
                )  # fmt: skip
            finally:
                settle(subjects, found)
                firsts = {subject.key: subject.configs[0] for subject in subjects}
                chosen = firsts | found.winners
                keep_cubins(target, bench.cubins(chosen))
                bench.close()
                keep_results(header, bench.results, chosen)
    except DeviceError as error:
        _LOG.warning("kernels are not measured any further: %s", error)
    return found


def keep_results(header: Header, results: Sequence[Result], chosen: Mapping[str, Config]) -> None:
    """Put kernels of which several candidates ran into the user's database, the chosen first."""
    found = entries_of(header, results)
    entries = [with_first(entry, results, chosen[entry.key]) for entry in found]
    several = [entry for entry in entries if len(entry.configs) >= FEWEST]
    if not several:
        return
    try:
        path = user_file(header.arch)
        merge_into(path, several, header.device)
        _LOG.info("%s: %d kernels were added", path, len(several))
    except ArtifactError as error:
        _LOG.warning("what was measured of kernels is not kept: %s", error)


def with_first(entry: Entry, results: Sequence[Result], config: Config) -> Entry:
    """An entry whose chosen config comes first: a faster one by noise does not displace it."""
    first = [
        Measured(result.config, result.warm, result.cold)
        for result in results
        if (result.key, result.config) == (entry.key, config) and time_of(result) < inf
        if result.warm
    ][:1]
    rest = [known for known in entry.configs if known.config != config]
    return replace(entry, configs=(*first, *rest)[:KEPT])


def tuning_record(subjects: Sequence[TuningSubject], found: TuningFound) -> TuningRecord:
    """The record of the kernels that were measured, and of the gain."""
    uses = {subject.key: subject.uses for subject in subjects}
    pairs = [(uses[key], *pair) for key, pair in found.pairs.items()]
    return TuningRecord(
        kernels=len(subjects),
        tried=found.tried,
        improved=len(pairs),
        before=sum(count * before for count, before, _ in pairs),
        after=sum(count * after for count, _, after in pairs),
    )
