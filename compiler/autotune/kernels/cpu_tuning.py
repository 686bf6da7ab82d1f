"""Measures the kernels of a model that this CPU's database has not, while it compiles."""

import logging
import os
from collections.abc import Sequence
from time import perf_counter

from compiler.autotune.kernels.bundle import FEWEST
from compiler.autotune.kernels.cpu_bench import CpuBench, CpuSubject
from compiler.autotune.kernels.plan import TuningLimits, TuningSubject
from compiler.autotune.kernels.results import Header
from compiler.autotune.kernels.tuning_search import TuningFound, search_configs, settle
from compiler.autotune.kernels.while_compiling import CountedGroups, keep_results, tuning_record
from compiler.errors import DeviceError
from compiler.kernels import KernelCache
from compiler.kernels.cpu.host import database_name, host_cpu
from compiler.kernels.cpu.tunable import llvm_version
from compiler.kernels.kernel import cpu_tunable
from compiler.progress import CandidateMeasured, TuningBegan, notify
from compiler.schedule.choices import TuningRecord
from compiler.target.target import CpuTarget

_LOG = logging.getLogger(__name__)

BYTES_PER_NANOSECOND = 10.0
"""The bytes that a kernel without a template moves in a nanosecond, about."""


def tune_cpu_groups(
    groups: CountedGroups, target: CpuTarget, limits: TuningLimits, cache: KernelCache | None
) -> tuple[TuningRecord, bool]:
    """Measure the kernels of groups that no database has, heavy ones first, within limits.

    Also says whether no kernel is left that is worth measuring. The cache gets all that is built.
    """
    counted = [*groups]
    found, subjects, others = cpu_tunables(counted, target)
    run = others + sum(subject.time({}) for subject in subjects)
    seconds = limits.seconds(len(subjects), run / 1e9)
    if not seconds or not host_cpu(target):
        return TuningRecord(), not subjects
    bench = CpuBench(
        found, target, len(os.sched_getaffinity(0)), cache, between=weight_bytes(counted)
    )
    searched = _searched(bench, target, subjects, others, seconds)
    return tuning_record(subjects, searched), searched.complete


def weight_bytes(groups: CountedGroups) -> int:
    """The bytes of the weights of all launches, each of which has its own."""
    return sum(
        count * info.nbytes
        for group, count in groups
        for info, weight in zip(group.reads, group.weights, strict=True)
        if weight
    )


def cpu_tunables(
    groups: CountedGroups, target: CpuTarget
) -> tuple[dict[str, CpuSubject], list[TuningSubject], float]:
    """The kernels with a choice that no database has; and the nanoseconds of a run's others."""
    subjects: dict[str, CpuSubject] = {}
    uses: dict[str, int] = {}
    others = 0.0
    for group, count in groups:
        tunable = cpu_tunable(group, target)
        if tunable is None:
            others += count * group.traffic_bytes / BYTES_PER_NANOSECOND
        elif (entry := tunable.entry(target)) is not None or len(tunable.configs) < FEWEST:
            others += count * (entry.ranked[0].warm if entry else tunable.nanoseconds[0])
        else:
            subjects.setdefault(tunable.key, CpuSubject(group, tunable))
            uses[tunable.key] = uses.get(tunable.key, 0) + count
    return subjects, [_subject(found, uses[key]) for key, found in subjects.items()], others


def _subject(found: CpuSubject, uses: int) -> TuningSubject:
    tunable = found.tunable
    return TuningSubject(tunable.key, uses, tuple(tunable.by_fields), tunable.nanoseconds)


def _searched(
    bench: CpuBench,
    target: CpuTarget,
    subjects: Sequence[TuningSubject],
    others: float,
    seconds: float,
) -> TuningFound:
    """Measure for some seconds; the database gets what was found, however that ends."""
    notify(TuningBegan(len(subjects), seconds))
    searched = TuningFound()
    header = Header(database_name(target), host_cpu(target), llvm_version())
    try:
        search_configs(
            subjects, bench, seconds, perf_counter,
            found=searched, others=others,
            report=lambda done, started: notify(CandidateMeasured(done, started)),
        )  # fmt: skip
    except DeviceError as error:
        _LOG.warning("kernels are not measured any further: %s", error)
    finally:
        bench.close()
        settle(subjects, searched)
        chosen = {subject.key: subject.configs[0] for subject in subjects} | searched.winners
        keep_results(header, bench.results, chosen)
    return searched
