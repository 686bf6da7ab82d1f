"""The cost of each kernel: measured now, taken from a database, or estimated from its work."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from compiler.autotune.kernel_times import KernelTimeDatabase, key_of
from compiler.autotune.profile import ENOUGH_NS, measure_kernels, record_of_one
from compiler.autotune.trials import trials_on
from compiler.backends.gpu.driver import DeviceInfo, Driver
from compiler.errors import ArtifactError
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule, Task

QUICK_SAMPLES = 5
"""Samples of a kernel that is timed while a model is compiled."""


def open_database(path: str | os.PathLike[str] | None, *, required: bool) -> KernelTimeDatabase:
    """The database of a file; an empty one where there is none, unless it is required."""
    if path is not None and (required or Path(path).exists()):
        return KernelTimeDatabase.load(path)
    return KernelTimeDatabase()


def save_database(database: KernelTimeDatabase, path: str | os.PathLike[str]) -> None:
    """Write a database, with what another process put into the file; ArtifactError if it fails."""
    database.merge(open_database(path, required=False))
    try:
        database.save(path)
    except OSError as error:
        raise ArtifactError(f"cannot write {os.fspath(path)}: {error.strerror}") from error


def try_missing(
    driver: Driver,
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    database: KernelTimeDatabase,
    seconds: float,
) -> float:
    """Run each kernel in a trial that the database has not for this device; the runs' seconds.

    What is in the database has ended before. A run that says enough goes there. Raises TrialError
    for a kernel that fails, or if the runs take longer than some seconds.
    """
    tasks = _missing(driver, schedule, kernels, database)
    times = trials_on(driver).kernels(tasks.values(), kernels, seconds)
    for name, nanoseconds in times.items():
        if nanoseconds >= ENOUGH_NS:
            database.add(key_of(kernels[name], driver.device), record_of_one(nanoseconds))
    return sum(times.values()) / 1e9


def measure_missing(
    driver: Driver,
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    database: KernelTimeDatabase,
    expired: Callable[[], bool],
) -> None:
    """Time the kernels that the database has not for this device until time is over."""
    if tasks := _missing(driver, schedule, kernels, database):
        unmeasured = replace(schedule, tasks=tuple(tasks.values()))
        database.merge(measure_kernels(driver, unmeasured, kernels, QUICK_SAMPLES, expired=expired))


def _missing(
    driver: Driver,
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    database: KernelTimeDatabase,
) -> dict[str, Task]:
    """A task of each kernel that the database has not for this device."""
    recorded = database.costs(kernels.values(), driver.device)
    launching = (task for task in schedule.all_tasks if task.control is None)
    return {task.kernel: task for task in launching if task.kernel not in recorded}


def recorded_costs(
    database: KernelTimeDatabase, kernels: Mapping[str, KernelSpec], device: DeviceInfo | None
) -> dict[str, float]:
    """Measured nanoseconds by kernel: on a device, else on the one that most were measured on.

    Without a device, the result depends on the database alone.
    """
    if device is not None:
        return database.costs(kernels.values(), device)
    return database.costs_anywhere(kernels.values())
