"""The architecture of the HIP device of this machine."""

from compiler.backends.hip.driver import HipRuntime
from compiler.errors import DeviceError
from compiler.target.devices import DEFAULT_ARCHITECTURES


def present_architecture() -> str:
    """The architecture of the first device, or the default one without a device."""
    try:
        return HipRuntime.open().device(0).architecture
    except DeviceError:
        return DEFAULT_ARCHITECTURES["hip"]
