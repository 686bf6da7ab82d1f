"""What each kernel costs: measured now, taken from a database, or estimated from its work."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from compiler.analysis.makespan import Load
from compiler.backends.gpu.dependencies import estimated_time
from compiler.backends.gpu.driver import DeviceInfo, Driver
from compiler.errors import ArtifactError
from compiler.profile.database import Database
from compiler.profile.measure import measure_kernels
from compiler.schedule import KernelSpec, Schedule

QUICK_SAMPLES = 5
"""Samples of a kernel that is timed while a model is compiled."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a device of some architecture can do: multiprocessors, FLOPs and bytes in a ns."""

    multiprocessors: int
    flops: float
    bandwidth: float


RATES = {
    "sm_80": Rates(108, 19_500.0, 2_000.0),
    "sm_86": Rates(84, 35_600.0, 936.0),
    "sm_89": Rates(128, 82_600.0, 1_008.0),
    "sm_90": Rates(132, 66_900.0, 4_300.0),
    "sm_100": Rates(148, 74_400.0, 8_000.0),
    "sm_120": Rates(170, 104_800.0, 1_792.0),
}
"""A typical device of each architecture; one that is not listed is taken for an sm_90."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds of every kernel by name; `measured` holds those that are not estimates."""

    of: Mapping[str, float]
    measured: Mapping[str, float]
    rates: Rates

    @classmethod
    def make(
        cls, kernels: Mapping[str, KernelSpec], measured: Mapping[str, float], architecture: str
    ) -> "Costs":
        """Costs where some kernels were measured; the others are estimated for an architecture."""
        rates = RATES.get(architecture.rstrip("af"), RATES["sm_90"])
        pair = rates.flops, rates.bandwidth
        known = {name: measured[name] for name in kernels if name in measured}
        every = {name: known.get(name, estimated_time(k, pair)) for name, k in kernels.items()}
        return cls(every, known, rates)

    def loads(self, schedule: Schedule, kernels: Mapping[str, KernelSpec]) -> list[Load]:
        """What each task of a schedule asks of the device."""
        by_name = {name: self._load(kernel) for name, kernel in kernels.items()}
        return [by_name[task.kernel] for task in schedule.tasks]

    def _load(self, kernel: KernelSpec) -> Load:
        blocks = max((prod(launch.grid) for launch in kernel.launches), default=0)
        share = min(1.0, blocks / self.rates.multiprocessors)
        return Load(max(1.0, self.of[kernel.name]), share, len(kernel.launches))


def open_database(path: str | os.PathLike[str] | None, *, required: bool) -> Database:
    """The database of a file; an empty one where there is none, unless it is required."""
    if path is not None and (required or Path(path).exists()):
        return Database.load(path)
    return Database()


def save_database(database: Database, path: str | os.PathLike[str]) -> None:
    """Write a database; ArtifactError if that is not possible."""
    try:
        database.save(path)
    except OSError as error:
        raise ArtifactError(f"cannot write {os.fspath(path)}: {error.strerror}") from error


def measure_missing(
    driver: Driver,
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    database: Database,
    expired: Callable[[], bool],
) -> None:
    """Time the kernels that the database lacks for this device until time is over."""
    known = database.costs(kernels.values(), driver.device)
    tasks = {task.kernel: task for task in schedule.tasks if task.kernel not in known}
    if tasks:
        wanted = replace(schedule, tasks=tuple(tasks.values()))
        database.merge(
            measure_kernels(driver, wanted, kernels, QUICK_SAMPLES, cold=False, expired=expired)
        )


def recorded_costs(
    database: Database, kernels: Mapping[str, KernelSpec], device: DeviceInfo | None
) -> dict[str, float]:
    """Measured nanoseconds by kernel: on a device, else on the one that most were measured on.

    Without a device, the result depends on the database alone.
    """
    if device is not None:
        return database.costs(kernels.values(), device)
    return database.costs_anywhere(kernels.values())
