"""The architectures that a HIP target means, and the device at hand."""

import re

from compiler.backends.hip.driver import HipRuntime
from compiler.errors import DeviceError

DEFAULT_ARCHITECTURE = "gfx90a"
"""What is compiled for when no device is present and none is named."""

KNOWN = re.compile(r"gfx[0-9a-f]{3,5}")
"""The names of AMD's architectures."""


def architectures(target: str) -> tuple[str, ...]:
    """What a target names (`hip:gfx90a,gfx942:fp16`), else the device's, else the default."""
    named = target.split(":")[1:2]
    if not named or not named[0]:
        return (present_architecture(),)
    found = tuple(named[0].split(","))
    if not all(KNOWN.fullmatch(each) for each in found):
        raise DeviceError(
            f"target {target!r} names no AMD architectures: write gfx90a, or gfx90a,gfx942"
        )
    return found


def present_architecture() -> str:
    """The architecture of the first device, or the default one without a device."""
    try:
        return HipRuntime.open().device(0).architecture
    except DeviceError:
        return DEFAULT_ARCHITECTURE
