"""Aligned memory, and how much of it there is."""

import re
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy
from numpy.typing import DTypeLike, NDArray

from compiler.errors import DeviceError

ALIGNMENT = 64
"""Bytes to which every buffer is aligned: a cache line, and the widest vector register."""

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
MEMORY_INFORMATION = Path("/proc/meminfo")


def numpy_dtype(name: str) -> numpy.dtype[Any]:
    """The numpy dtype of a name in `compiler.schedule.ELEMENT_BYTES`."""
    return numpy.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def address(array: NDArray[Any]) -> int:
    """Where an array's data begin."""
    return array.__array_interface__["data"][0]


def aligned_bytes(nbytes: int) -> NDArray[numpy.uint8]:
    """Uninitialised bytes, the first one aligned; DeviceError if there are not that many."""
    try:
        block = numpy.empty(nbytes + ALIGNMENT, numpy.uint8)
    except MemoryError as error:
        raise DeviceError(f"out of memory: {nbytes} bytes were needed") from error
    start = -address(block) % ALIGNMENT
    return block[start : start + nbytes]


def aligned_array(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """An uninitialised row-major array whose data are aligned."""
    kind = numpy.dtype(dtype)
    return aligned_bytes(prod(shape) * kind.itemsize).view(kind).reshape(shape)


def is_usable(array: NDArray[Any]) -> bool:
    """Whether kernels can read an array where it is: row-major and aligned."""
    return array.flags.c_contiguous and address(array) % ALIGNMENT == 0


def available_bytes() -> int | None:
    """Memory that can still be taken here, or None where the system does not say."""
    found: list[int] = []
    if MEMORY_INFORMATION.exists():
        match = re.search(r"MemAvailable:\s+(\d+) kB", MEMORY_INFORMATION.read_text())
        found += [int(match[1]) * 1024] if match else []
    if CGROUP_LIMIT.exists():
        limit = CGROUP_LIMIT.read_text().strip()
        found += [int(limit)] if limit.isdecimal() else []
    return min(found, default=None)


def require(nbytes: int, purpose: str) -> None:
    """Raise DeviceError unless so many bytes can be taken."""
    available = available_bytes()
    if available is not None and nbytes > available:
        raise DeviceError(
            f"out of memory: {purpose} needs {nbytes} bytes and {available} are available"
        )
