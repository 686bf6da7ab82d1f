"""What the database of measured choices holds for a template's problem."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from compiler.kernels import database
from compiler.kernels.database import Entry
from compiler.kernels.gpu.headers import current_versions
from compiler.target.target import GpuTarget


class Standing(Enum):
    """Where a choice comes from, the surest first."""

    TUNED = "tuned"
    OTHER_DEVICE = "tuned on another device"
    OTHER_VERSION = "tuned with older templates or another compiler"
    SIMILAR = "taken from similar kernels"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class Contender:
    """One of several kernels of a group: what was measured of it, and its estimate in
    microseconds."""

    entry: Entry | None
    estimate: float

    def is_faster(self, other: "Contender") -> bool:
        """By measured times where both have one of the same device, else by estimates."""
        own, others = self.entry, other.entry
        if own and others and own.device == others.device:
            return own.ranked[0].warm < others.ranked[0].warm
        return self.estimate < other.estimate


def entries(target: GpuTarget) -> dict[str, Entry]:
    """The entry that counts for each key of an architecture."""
    return database.known(target.architecture, current_versions())


def recorded(key: str, target: GpuTarget) -> Entry | None:
    """The entry of a problem, if there is one."""
    return entries(target).get(key)


def first_of(entry: Entry | None, fits: Collection[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The best recorded choice that can be built; None without any."""
    tiles = entry.ranked if entry else ()
    return next((each.tile for each in tiles if each.tile in fits), None)


def standing(entry: Entry, device: str) -> Standing:
    """How far an entry can be trusted on a device, which may be unknown: empty."""
    if entry.version not in current_versions():
        return Standing.OTHER_VERSION
    return Standing.TUNED if device in ("", entry.device) else Standing.OTHER_DEVICE
