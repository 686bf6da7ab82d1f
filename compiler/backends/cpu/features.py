"""Which CPUs can run code that was compiled for a CPU target."""

import ctypes
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from compiler.errors import DeviceError
from compiler.support.native_code import llvm
from compiler.target.cpus import AARCH64, host_instruction_set
from compiler.target.target import parse_cpu

AT_HWCAP = 16
AT_HWCAP2 = 26
"""With the entry above, those of Linux's auxiliary vector that list an Arm CPU's features."""

HWCAPS = {
    "lse": (AT_HWCAP, 8),
    "fullfp16": (AT_HWCAP, 10),
    "rdm": (AT_HWCAP, 12),
    "complxnum": (AT_HWCAP, 14),
    "rcpc": (AT_HWCAP, 15),
    "dotprod": (AT_HWCAP, 20),
    "fp16fml": (AT_HWCAP, 23),
    "fptoint": (AT_HWCAP2, 8),
    "i8mm": (AT_HWCAP2, 13),
    "bf16": (AT_HWCAP2, 14),
}
"""The features of AArch64 that kernels may use beyond NEON: LLVM's names, the entry and the bit."""

_IN_CODE = re.compile(
    r"(avx|s?sse|mmx|f16c$|fma|xop$|tbm$|bmi|adx$|cmov$|cx8$|cx16$|sahf$|lzcnt$|popcnt$|movbe$|crc32$"
    r"|v?aes$|v?pclmul|sha|gfni$)"
)
"""x86's features that compilers use by themselves; the others are for systems and libraries."""

_LEVEL_2 = "cmov cx16 cx8 popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3"
_LEVEL_3 = _LEVEL_2 + " avx avx2 bmi bmi2 f16c fma lzcnt movbe"
_LEVEL_4 = _LEVEL_3 + " avx512bw avx512cd avx512dq avx512f avx512vl"
LEVELS = {
    "x86-64": "cmov cx8 sse sse2",
    "x86-64-v2": _LEVEL_2,
    "x86-64-v3": _LEVEL_3,
    "x86-64-v4": _LEVEL_4,
}
"""The features of the levels that the x86-64 psABI defines."""


def host_features() -> frozenset[str]:
    """The features of the host's CPU, by LLVM's names."""
    if host_instruction_set() == AARCH64:
        return frozenset(name for name, (entry, bit) in HWCAPS.items() if _hwcap(entry) >> bit & 1)
    features: dict[str, bool] = llvm.get_host_cpu_features()
    return frozenset(name for name, present in features.items() if present)


def _hwcap(entry: int) -> int:
    """An entry of the auxiliary vector; 0 on systems that have none."""
    read = getattr(ctypes.CDLL(None), "getauxval", None)
    if read is None:
        return 0
    read.argtypes = [ctypes.c_ulong]
    read.restype = ctypes.c_ulong
    return read(entry)


def requirements(target: str, ask: Callable[[], Collection[str]] | None = None) -> dict[str, Any]:
    """The features that a host must have for `cpu`, `cpu:MCPU` or `cpu:MCPU:FEATURES`.

    `ask` gives those that LLVM may use for the target; it is called for processors whose features
    are not known here. Without it, their code needs that processor or what the target lists.
    """
    parsed = parse_cpu(target)
    needed: dict[str, Any] = {"architecture": parsed.instruction_set}
    # The features of the host, of the x86-64 levels and of plain AArch64; None of others.
    if not parsed.mcpu:
        used = host_features()
    elif parsed.mcpu == AARCH64:
        used = ()
    else:
        used = LEVELS[parsed.mcpu].split() if parsed.mcpu in LEVELS else None
    listed = {name[1:] for name in parsed.features.split(",") if name.startswith("+")}
    if used is None and ask is not None:
        used = ask()
    elif used is None and not listed:
        needed["processor"] = parsed.mcpu
    every = listed.union(used or ())
    return needed | {"features": sorted(generated(parsed.instruction_set, every))}


def generated(instruction_set: str, features: Collection[str]) -> set[str]:
    """The features among those of a CPU that change the code that LLVM generates."""
    if instruction_set == AARCH64:
        return HWCAPS.keys() & features
    return {name for name in features if _IN_CODE.match(name)}


def check_features(needed: Mapping[str, Any]) -> None:
    """Raise DeviceError, naming what is missing, unless this host meets all requirements."""
    host = host_instruction_set()
    if needed.get("architecture", host) != host:
        raise DeviceError(
            f"made for the architecture {needed['architecture']}; this is {host}: compile the model"
            f" on this host, or `flowloom export` it and build the project there"
        )
    remedy = "compile the model on this host, or for an older target such as cpu:x86-64-v3"
    if host == AARCH64:
        remedy = "compile the model on this host, or for cpu:aarch64"
    processor = llvm.get_host_cpu_name()
    if needed.get("processor", processor) != processor:
        named = needed["processor"]
        raise DeviceError(f"made for the processor {named}; this is {processor}: {remedy}")
    missing = sorted(set(needed["features"]) - host_features())
    if missing:
        raise DeviceError(f"this CPU does not have {', '.join(missing)}: {remedy}")
