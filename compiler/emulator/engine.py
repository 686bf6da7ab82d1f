"""The engine of this process: its C functions with checked results."""

import ctypes
import tempfile
from pathlib import Path
from typing import Any

from compiler.errors import DeviceError


class Dim(ctypes.Structure):
    """Three extents."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class EngineKernel(ctypes.Structure):
    """A kernel's description, as its shared object holds it."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("invoke", ctypes.c_void_p),
        ("anchor", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_size_t)),
        ("parameters", ctypes.c_uint),
        ("cluster", Dim),
    )


class EngineCall(ctypes.Structure):
    """One launch, as the engine takes it."""

    _fields_ = (
        ("kernel", ctypes.POINTER(EngineKernel)),
        ("grid", Dim),
        ("block", Dim),
        ("shared_bytes", ctypes.c_size_t),
        ("parameters", ctypes.c_void_p),
        ("extents", ctypes.c_void_p),
        ("indirect", ctypes.c_int),
    )


class Engine:
    """The functions of runtime.h without their prefix; DeviceError says why one fails."""

    def __init__(self, path: Path) -> None:
        # kernels' libraries, which are opened later, resolve the engine's symbols
        self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        self._library.emulator_error.restype = ctypes.c_char_p

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call `emulator_NAME`; integers are passed as 64-bit addresses and sizes."""
        # ctypes would pass a bare integer as a C int of 32 bits
        converted = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        if getattr(self._library, f"emulator_{name}")(*converted):
            reason: bytes = self._library.emulator_error()
            raise DeviceError(f"emulator: {reason.decode(errors='replace')}")

    def made(self, name: str, *arguments: Any) -> int:
        """Call a function that puts a handle or an address where its first argument points."""
        result = ctypes.c_uint64()
        self(name, ctypes.byref(result), *arguments)
        return result.value

    def holds(self, address: int) -> bool:
        """Whether an address is in memory of the engine."""
        return bool(self._library.emulator_holds(ctypes.c_uint64(address)))


_open: Engine | None = None


def open_engine(content: bytes) -> Engine:
    """The engine of this process, loaded by the first call."""
    global _open
    if _open is None:
        with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
            path = Path(folder) / "engine.so"
            path.write_bytes(content)
            _open = Engine(path)
    return _open
