"""Results to database entries, and the entries of several databases to one."""

from collections.abc import Iterable
from pathlib import Path

from compiler.autotune.kernel_times import time_in_a_run
from compiler.autotune.kernels.results import Header, Result
from compiler.autotune.lock import locked
from compiler.kernels.database import KEPT, Database, Entry, Measured, load, save
from compiler.kernels.database.fields import Config, full_version

MERGE_PATIENCE = 60.0
"""The seconds for which a database's file is waited for, which takes milliseconds to change."""


def entries_of(header: Header, results: Iterable[Result]) -> list[Entry]:
    """The fastest right candidates of each kernel; none where most candidates were wrong."""
    by_kernel: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_kernel.setdefault((result.key, result.version), []).append(result)
    return [
        Entry(key, header.device, full_version(code, header.compiler), configs)
        for (key, code), kernel_results in sorted(by_kernel.items())
        if (configs := _fastest(kernel_results))
    ]


def _fastest(results: list[Result]) -> tuple[Measured, ...]:
    # a time of 0 is one that noise has swallowed
    right = [Measured(r.config, r.warm, r.cold, r.interval) for r in results if r.warm]
    wrong = sum(result.problem.startswith("wrong") for result in results)
    return () if wrong > len(right) else tuple(sorted(right, key=_rank)[:KEPT])


def _rank(measured: Measured) -> tuple[bool, float, Config]:
    """Those without cold times come last: they were far from the best."""
    time = time_in_a_run(measured.warm, measured.cold)
    return measured.cold is None, time, measured.config


def merge_entries(old: Database, new: Iterable[Entry], device: str) -> Database:
    """A database with further entries, for a device or else the one that it was for.

    Of one problem, device and version the new times count, and the old ones of other configs.
    """
    entries = {entry.identity: entry for entry in old.entries}
    for entry in new:
        previous = entries.get(entry.identity)
        entries[entry.identity] = _merged(previous, entry) if previous else entry
    return Database(sorted(entries.values(), key=lambda e: e.identity), device or old.device)


def merge_into(
    path: Path, new: Iterable[Entry], device: str, patience: float = MERGE_PATIENCE
) -> Database:
    """Put entries into a database's file, which one process changes at a time.

    Raises ArtifactError for a damaged file, or if another process holds it for longer than
    `patience` seconds.
    """
    with locked(path, patience):
        merged = merge_entries(load(path) if path.exists() else Database(), new, device)
        save(path, merged)
    return merged


def _merged(old: Entry, new: Entry) -> Entry:
    configs = {measured.config: measured for measured in (*old.configs, *new.configs)}
    context = new.context or old.context
    ranked = sorted(configs.values(), key=_rank)
    best = ranked[:KEPT]
    if context and context.config in configs and configs[context.config] not in best:
        best = [*ranked[: KEPT - 1], configs[context.config]]
    return Entry(new.key, new.device, new.version, tuple(best), context)
