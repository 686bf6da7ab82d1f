"""Which CPUs can run code that was compiled for a CPU target."""

import platform
from collections.abc import Mapping
from typing import Any

import llvmlite.binding

from compiler.errors import DeviceError
from compiler.target.target import parse_cpu

llvm: Any = llvmlite.binding  # its functions are untyped

NEVER_GENERATED = frozenset(
    "64bit cldemote clflushopt clwb clzero fsgsbase fxsr invpcid lwp mwaitx pconfig pku prfchw "
    "ptwrite rdpid rdpru rdrnd rdseed sgx shstk tsxldtrk uintr waitpkg wbnoinvd x87 xsave xsavec "
    "xsaveopt xsaves".split()
)
"""Features of systems and libraries that no compiler uses by itself."""

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
    found: dict[str, bool] = llvm.get_host_cpu_features()
    return frozenset(name for name, present in found.items() if present)


def requirements(target: str) -> dict[str, Any]:
    """The features that a host must have for `cpu`, `cpu:MCPU` or `cpu:MCPU:FEATURES`."""
    parsed = parse_cpu(target)
    processor, listed = parsed.mcpu, parsed.features
    features = {name[1:] for name in listed.split(",") if name.startswith("+")}
    needed: dict[str, Any] = {"architecture": platform.machine()}
    if not processor:
        features |= host_features()
    elif processor in LEVELS:
        features |= set(LEVELS[processor].split())
    elif not features:
        needed["processor"] = processor
    return needed | {"features": sorted(features - NEVER_GENERATED)}


def check_features(needed: Mapping[str, Any]) -> None:
    """Raise DeviceError, naming what is missing, unless this host meets all requirements."""
    remedy = "compile the model on this host, or for an older target such as cpu:x86-64-v3"
    for name, here in (
        ("architecture", platform.machine()),
        ("processor", llvm.get_host_cpu_name()),
    ):
        if needed.get(name, here) != here:
            raise DeviceError(f"made for the {name} {needed[name]}; this is {here}: {remedy}")
    missing = sorted(set(needed["features"]) - host_features())
    if missing:
        raise DeviceError(f"this CPU does not have {', '.join(missing)}: {remedy}")
