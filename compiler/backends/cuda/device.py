"""The CUDA device of this machine, and its architecture."""

from functools import cache

from compiler.backends.cuda.driver import CudaDriver
from compiler.errors import DeviceError
from compiler.target.devices import DEFAULT_ARCHITECTURES


@cache
def device(ordinal: int = 0) -> CudaDriver:
    """The driver of one device, shared by all that is loaded on it; DeviceError without one."""
    return CudaDriver(ordinal)


def present_architecture() -> str:
    """The architecture of the first device, or the default one without a device."""
    try:
        return device().device.architecture
    except DeviceError:
        return DEFAULT_ARCHITECTURES["cuda"]
