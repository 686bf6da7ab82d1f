"""How much memory the host has."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compiler.errors import DeviceError

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
MEMORY_INFORMATION = Path("/proc/meminfo")


_FEW_BYTES = 1 << 20
"""Up to this many bytes the system is not asked: that takes longer than allocating them."""

_UNLIMITED = 1 << 60
"""A limit of this many bytes counts as none: version 1 of cgroups has no word for that."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The folder of a version of cgroups, its line of /proc/self/cgroup, and names of numbers."""

    folder: str
    line: str
    limit: str
    usage: str
    files: str


_LAYOUTS = (
    _Layout("", r"0::", "memory.max", "memory.current", "inactive_file"),
    _Layout(
        "memory",
        r"\d+:(?:[^:]*,)?memory(?:,[^:]*)?:",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def available_bytes() -> int | None:
    """Bytes that can still be allocated here, or None where the system does not say."""
    # A container's limit is not in /proc/meminfo, which is the host's.
    limits = [free for layout in _LAYOUTS for free in _free_in_groups(layout)]
    available = _number(MEMORY_INFORMATION, r"MemAvailable:\s+(\d+) kB")
    limits += [] if available is None else [available * 1024]
    return min(limits, default=None)


def _free_in_groups(layout: _Layout) -> Iterator[int]:
    """The memory that the process's group and each group around it may still take.

    Files that are kept in memory count as used, though those not read of late make room for what
    is taken: they are available, as /proc/meminfo counts them, too.
    """
    for group in _groups(layout):
        limit = _number(group / layout.limit, r"(\d+)")
        if limit is not None and limit < _UNLIMITED:
            used = _number(group / layout.usage, r"(\d+)") or 0
            files = _number(group / "memory.stat", rf"^{layout.files} (\d+)") or 0
            yield max(0, limit - max(0, used - files))


def _groups(layout: _Layout) -> list[Path]:
    """The process's group and those around it, where they would be.

    A container may have a name that only its host can follow, with its own group as the root.
    """
    root = CGROUPS / layout.folder
    name = re.search(rf"^{layout.line}/(.*)", _text(OWN_CGROUPS), re.MULTILINE)
    group = root / name[1] if name else root
    return [group, *(path for path in group.parents if path.is_relative_to(root))]


def _text(path: Path) -> str:
    """The text of a system's file, which is empty where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path, pattern: str) -> int | None:
    """The number that a system's file gives after a pattern."""
    match = re.search(pattern, _text(path), re.MULTILINE)
    return int(match[1]) if match else None


def require(nbytes: int, purpose: str) -> None:
    """Raise DeviceError unless this many bytes can be allocated; a few always can."""
    if nbytes <= _FEW_BYTES:
        return
    available = available_bytes()
    if available is not None and nbytes > available:
        raise DeviceError(
            f"out of memory: {purpose} needs {nbytes} bytes and {available} are available"
        )
