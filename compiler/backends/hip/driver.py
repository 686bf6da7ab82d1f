"""AMD's HIP runtime by ctypes: which devices there are. Runs go through a module's own library."""

import ctypes
import re
from dataclasses import dataclass
from typing import Any

from compiler.errors import DeviceError

LIBRARY_NAMES = ("libamdhip64.so", *(f"libamdhip64.so.{version}" for version in (7, 6, 5)))
"""The runtime's library, of any version."""

PROPERTIES = ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties")
"""The function since ROCm 6, and before; its structure begins with the device's name."""

PROPERTIES_BYTES = 1 << 14
"""More than the structure of any version has."""

NAME_BYTES = 256
"""The length of the name in it."""

ARCHITECTURE = re.compile(rb"gfx[0-9a-f]{3,5}")


@dataclass(frozen=True, slots=True)
class HipDevice:
    """A device's number, name and architecture (`gfx90a`)."""

    ordinal: int
    name: str
    architecture: str


class HipRuntime:
    """The functions of a runtime that say what devices there are."""

    def __init__(self, name: str) -> None:
        """Open a library by name or path; raises OSError without it."""
        self.name = name
        self._library: Any = ctypes.CDLL(name)
        self._library.hipGetErrorString.restype = ctypes.c_char_p

    @classmethod
    def open(cls, needed: str | None = None) -> "HipRuntime":
        """The runtime of this machine, or exactly the one that is needed; DeviceError without."""
        message = ""
        for name in LIBRARY_NAMES if needed is None else (needed,):
            try:
                return cls(name)
            except (OSError, AttributeError) as error:
                message = str(error)
        raise DeviceError(
            f"the target 'hip' needs AMD's HIP runtime, {needed or LIBRARY_NAMES[0]} ({message}):"
            " install ROCm (Debian: apt-get install libamdhip64-5), or compile the model with the"
            " HIP compiler of the ROCm that is installed"
        )

    @property
    def count(self) -> int:
        """The number of devices; DeviceError, with the runtime's reason, if there is not one."""
        number = ctypes.c_int()
        status = self._library.hipGetDeviceCount(ctypes.byref(number))
        if status or not number.value:
            reason = self._library.hipGetErrorString(status).decode() if status else "none is there"
            raise DeviceError(
                f"there is no AMD GPU that {self.name} can use ({reason}): run the module where"
                " there is one (rocminfo lists them), or compile for another target"
            )
        return number.value

    def device(self, ordinal: int) -> HipDevice:
        """One device; DeviceError if there are not that many."""
        if not 0 <= ordinal < self.count:
            raise DeviceError(f"there is no AMD GPU {ordinal}: {self.count} are visible")
        content = ctypes.create_string_buffer(PROPERTIES_BYTES)
        names = [name for name in PROPERTIES if hasattr(self._library, name)]
        status = getattr(self._library, names[0])(content, ctypes.c_int(ordinal))
        # The offset of the architecture depends on the version, but no other field looks like it.
        match = ARCHITECTURE.search(content.raw, NAME_BYTES)
        if status or match is None:
            raise DeviceError(f"{self.name} does not say what AMD GPU {ordinal} is ({status})")
        name = content.raw[:NAME_BYTES].split(b"\0")[0].decode(errors="replace")
        return HipDevice(ordinal, name or match[0].decode(), match[0].decode())
