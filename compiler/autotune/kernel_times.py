"""A database of kernel times, keyed by kernel, device, clock and driver; merged across machines."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compiler.backends.gpu.driver import DeviceInfo
from compiler.errors import ArtifactError
from compiler.schedule.kernels import KernelSpec
from compiler.support.caches import read_regular, write_whole
from compiler.verify.seals import unsealed_code

FORMAT = 1


@dataclass(frozen=True, slots=True)
class KernelTimeKey:
    """The kernel and the device that a time belongs to."""

    kernel: str
    device: str
    clock_khz: int
    driver: str


COLD_SHARE = 0.25
"""The part of its operands that a kernel does not find in the cache in a run, about."""


def time_in_a_run(warm: float, cold: float | None) -> float:
    """Nanoseconds of a kernel between others: mostly as with warm caches."""
    return warm + COLD_SHARE * max(0.0, (cold or warm) - warm)


@dataclass(frozen=True, slots=True)
class KernelTimeRecord:
    """Median nanoseconds of one kernel in a chain of launches, with warm and with cold caches.

    `cold` is None where it was not measured. `low` and `high` bound the warm median at 95 %;
    `count` is the number of samples.
    """

    warm: float
    cold: float | None
    low: float
    high: float
    count: int

    @property
    def in_a_run(self) -> float:
        """Nanoseconds between other kernels: see `time_in_a_run`."""
        return time_in_a_run(self.warm, self.cold)


def kernel_hash(kernel: KernelSpec) -> str:
    """A hash of a kernel's code and launches, whatever its name."""
    launches = [(x.symbol, x.args, x.grid, x.block, x.shared_bytes) for x in kernel.launches]
    content = repr((kernel.language, launches, kernel.workspaces)).encode() + unsealed_code(kernel)
    return hashlib.sha256(content).hexdigest()[:24]


def key_of(kernel: KernelSpec, device: DeviceInfo) -> KernelTimeKey:
    """The key of a kernel on a device."""
    return KernelTimeKey(kernel_hash(kernel), device.name, device.clock_khz, device.driver_version)


class KernelTimeDatabase:
    """Records by key; of two records of one key, the one with more samples is kept."""

    def __init__(self, records: Mapping[KernelTimeKey, KernelTimeRecord] | None = None) -> None:
        self.records = dict(records or {})

    def add(self, key: KernelTimeKey, record: KernelTimeRecord) -> None:
        """Put a record in."""
        old = self.records.get(key)
        # of equal counts the slower one, so that the order of merging does not matter
        if old is None or (record.count, record.warm) >= (old.count, old.warm):
            self.records[key] = record

    def merge(self, database: "KernelTimeDatabase") -> None:
        """Take over another machine's records; the order of merging does not matter."""
        for key, record in database.records.items():
            self.add(key, record)

    def costs(self, kernels: Iterable[KernelSpec], device: DeviceInfo) -> dict[str, float]:
        """Nanoseconds by kernel name in a run, of those that were measured on this device."""
        keys = {kernel.name: key_of(kernel, device) for kernel in kernels}
        return {n: self.records[key].in_a_run for n, key in keys.items() if key in self.records}

    def costs_anywhere(self, kernels: Iterable[KernelSpec]) -> dict[str, float]:
        """Nanoseconds by kernel name in a run, on the device that most were measured on."""
        names: dict[str, list[str]] = {}
        for kernel in kernels:
            names.setdefault(kernel_hash(kernel), []).append(kernel.name)
        devices: dict[tuple[str, int, str], dict[str, float]] = {}
        for key, record in self.records.items():
            costs = devices.setdefault((key.device, key.clock_khz, key.driver), {})
            costs |= dict.fromkeys(names.get(key.kernel, ()), record.in_a_run)
        best = max(sorted(devices), key=lambda device: len(devices[device]), default=None)
        return {} if best is None else devices[best]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, sorted, in place of an older file only once it is complete."""
        entries = [asdict(k) | asdict(r) for k, r in self.records.items()]
        entries.sort(
            key=lambda entry: tuple(str(entry[f]) for f in KernelTimeKey.__dataclass_fields__)
        )
        text = json.dumps({"format": FORMAT, "kernels": entries}, indent=1)
        write_whole(Path(path), text.encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "KernelTimeDatabase":
        """Read a saved database; ArtifactError if it is damaged or of another format."""
        try:
            data: Any = json.loads(read_regular(path))
            if data["format"] != FORMAT:
                raise ArtifactError(f"{path}: format {data['format']}, this version reads {FORMAT}")
            return cls(
                {
                    _part(KernelTimeKey, entry): _part(KernelTimeRecord, entry)
                    for entry in data["kernels"]
                }
            )
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
        # json parses nested lists by recursion: a damaged file can exhaust the stack
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            message = f"{path} is not a database of kernel times ({error}): measure again"
            raise ArtifactError(message) from error


def _part(kind: Any, entry: Mapping[str, Any]) -> Any:
    return kind(**{name: entry[name] for name in kind.__dataclass_fields__})
