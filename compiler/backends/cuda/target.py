"""The architecture that a CUDA target means, and the device at hand."""

import re
from functools import cache
from typing import TYPE_CHECKING

from compiler.errors import DeviceError

if TYPE_CHECKING:
    from compiler.backends.cuda.driver import CudaDriver

DEFAULT_ARCHITECTURE = "sm_90"
"""What is compiled for when no device is present and none is named."""


@cache
def device(ordinal: int = 0) -> "CudaDriver":
    """The driver of one device, shared by all that is loaded on it; DeviceError without one."""
    try:
        from compiler.backends.cuda.driver import CudaDriver
    except ImportError as error:
        raise DeviceError(
            "the target 'cuda' needs the package cuda-bindings: "
            f"pip install 'flowloom[cuda]' ({error})"
        ) from error
    return CudaDriver(ordinal)


def architecture(target: str) -> str:
    """What a target names (`cuda:sm_90:tf32`), else the device's, else the default."""
    named = target.partition(":")[2].partition(":")[0]
    if named:
        if not re.fullmatch(r"sm_\d+[af]?", named):
            raise DeviceError(f"target {target!r} names no CUDA architecture such as sm_90")
        return named
    try:
        return device().device.architecture
    except DeviceError:
        return DEFAULT_ARCHITECTURE
