"""How much memory the host has."""

import re
from pathlib import Path

from compiler.errors import DeviceError

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
MEMORY_INFORMATION = Path("/proc/meminfo")


_FEW_BYTES = 1 << 20
"""Bytes for which the system is not asked, which takes longer than making them."""


def available_bytes() -> int | None:
    """Memory that can still be taken here, or None where the system does not say."""
    limits: list[int] = []
    if MEMORY_INFORMATION.exists():
        match = re.search(r"MemAvailable:\s+(\d+) kB", MEMORY_INFORMATION.read_text())
        limits += [int(match[1]) * 1024] if match else []
    if CGROUP_LIMIT.exists():
        limit = CGROUP_LIMIT.read_text().strip()
        limits += [int(limit)] if limit.isdecimal() else []
    return min(limits, default=None)


def require(nbytes: int, purpose: str) -> None:
    """Raise DeviceError unless so many bytes can be taken; a few always can."""
    if nbytes <= _FEW_BYTES:
        return
    available = available_bytes()
    if available is not None and nbytes > available:
        raise DeviceError(
            f"out of memory: {purpose} needs {nbytes} bytes and {available} are available"
        )
