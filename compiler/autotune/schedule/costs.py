"""The cost of each kernel: measured now, taken from a database, or estimated from its work."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.autotune.kernel_times import KernelTimeDatabase, key_of
from compiler.autotune.profile import ENOUGH_NS, measure_kernels, record_of_one
from compiler.autotune.trials import trials_on
from compiler.backends.gpu.driver import DeviceInfo, Driver
from compiler.errors import ArtifactError
from compiler.schedule import KernelSpec, Schedule, Task
from compiler.scheduling.kernel_time import estimated_time, task_demand, task_time
from compiler.scheduling.simulator import TaskDemand
from compiler.target.devices import DeviceModel, typical_device

QUICK_SAMPLES = 5
"""Samples of a kernel that is timed while a model is compiled."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds of every kernel by name; `measured` holds those that are not estimates."""

    of: Mapping[str, float]
    measured: Mapping[str, float]
    device: DeviceModel

    @classmethod
    def make(
        cls, kernels: Mapping[str, KernelSpec], measured: Mapping[str, float], architecture: str
    ) -> "Costs":
        """Costs where some kernels were measured; the others are estimated for an architecture."""
        typical = typical_device(architecture)
        known = {name: measured[name] for name in kernels if name in measured}
        every = {n: known.get(n, estimated_time(k, typical)) for n, k in kernels.items()}
        return cls(every, known, typical)

    def works(self, schedule: Schedule, kernels: Mapping[str, KernelSpec]) -> list[TaskDemand]:
        """The demand of each task of a schedule."""
        used = {task.kernel for task in schedule.tasks if task.control is None}
        by_name = {n: task_demand(kernels[n], max(1.0, self.of[n]), self.device) for n in used}
        return [
            by_name[task.kernel]
            if task.control is None
            else TaskDemand(task_time(task, self.of.__getitem__))
            for task in schedule.tasks
        ]


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
    took = trials_on(driver).kernels(tasks.values(), kernels, seconds)
    for name, nanoseconds in took.items():
        if nanoseconds >= ENOUGH_NS:
            database.add(key_of(kernels[name], driver.device), record_of_one(nanoseconds))
    return sum(took.values()) / 1e9


def measure_missing(
    driver: Driver,
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    database: KernelTimeDatabase,
    expired: Callable[[], bool],
) -> None:
    """Time the kernels that the database has not for this device until time is over."""
    if tasks := _missing(driver, schedule, kernels, database):
        wanted = replace(schedule, tasks=tuple(tasks.values()))
        database.merge(measure_kernels(driver, wanted, kernels, QUICK_SAMPLES, expired=expired))


def _missing(
    driver: Driver,
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    database: KernelTimeDatabase,
) -> dict[str, Task]:
    """A task of each kernel that the database has not for this device."""
    known = database.costs(kernels.values(), driver.device)
    launching = (task for task in schedule.all_tasks if task.control is None)
    return {task.kernel: task for task in launching if task.kernel not in known}


def recorded_costs(
    database: KernelTimeDatabase, kernels: Mapping[str, KernelSpec], device: DeviceInfo | None
) -> dict[str, float]:
    """Measured nanoseconds by kernel: on a device, else on the one that most were measured on.

    Without a device, the result depends on the database alone.
    """
    if device is not None:
        return database.costs(kernels.values(), device)
    return database.costs_anywhere(kernels.values())
