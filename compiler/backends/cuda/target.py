"""The architecture that a CUDA target means, and the device at hand."""

import re
from functools import cache

from compiler.backends.cuda.driver import CudaDriver
from compiler.errors import DeviceError

DEFAULT_ARCHITECTURE = "sm_90"
"""What is compiled for when no device is present and none is named."""


@cache
def device(ordinal: int = 0) -> CudaDriver:
    """The driver of one device, shared by all that is loaded on it; DeviceError without one."""
    return CudaDriver(ordinal)


def architecture(target: str) -> str:
    """What a target names (`cuda:sm_90:tf32`), else the device's, else the default.

    The emulator runs AMD's kernels too (`emu:gfx90a:fp16`).
    """
    kind, _, rest = target.partition(":")
    named = rest.partition(":")[0]
    if named:
        known = r"sm_\d+[af]?|gfx[0-9a-f]{3,5}" if kind == "emu" else r"sm_\d+[af]?"
        if not re.fullmatch(known, named):
            raise DeviceError(f"target {target!r} names no CUDA architecture such as sm_90")
        return named
    try:
        return device().device.architecture
    except DeviceError:
        return DEFAULT_ARCHITECTURE
