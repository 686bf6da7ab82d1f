"""The CPU of this machine, by what decides how fast kernels are on it."""

import hashlib
import re
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from compiler.kernels.cpu.machine import host_target
from compiler.target.caches import CACHES, data_caches
from compiler.target.target import CpuTarget

CPUINFO = Path("/proc/cpuinfo")

IDENTITY = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "CPU variant")
"""The lines of Linux's description that name a CPU, on x86 and on Arm."""


@cache
def host_cpu(target: CpuTarget) -> str:
    """The CPU with the features that a target uses; empty if it is not this machine's."""
    named = target if target.mcpu else host_target()
    if named.mcpu != llvm.get_host_cpu_name():
        return ""
    features = hashlib.sha256(named.features.encode()).hexdigest()[:8]
    sizes = "/".join(str(size >> 10) for _, size in sorted(data_caches(CACHES).items()))
    return f"{_identity()} {named.mcpu}, features {features}, {sizes} KB of caches"


def database_name(target: CpuTarget) -> str:
    """The name of the database of what was measured for a target; empty where nothing can be."""
    host = host_cpu(target)
    mark = hashlib.sha256(host.encode()).hexdigest()[:8]
    return f"{llvm.get_host_cpu_name()}-{mark}" if host else ""


@cache
def _identity() -> str:
    """Vendor, family and model, as far as the system knows them."""
    text = CPUINFO.read_text(encoding="utf-8") if CPUINFO.is_file() else ""
    lines = (re.search(rf"^{name}\s*: *(.*)$", text, re.M) for name in IDENTITY)
    return "-".join(line[1] for line in lines if line) or "unknown"
