"""The C interface of an exported project's library (`flowloom/model.h`) from Python."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from compiler.backends.base import Array
from compiler.backends.memory import address
from compiler.errors import DeviceError, ShapeError
from compiler.schedule.choices import MODES
from compiler.schedule.tasks import Schedule

INTERFACE = 2
"""FLOWLOOM_INTERFACE, the version of the declarations below."""

OLDER_INTERFACES = (1,)
"""Earlier versions whose declarations differ in that the options have no `threads`, unused here."""

PROFILE_BYTES = 1 << 20
"""Room for a profile; most need less."""


class TensorStructure(ctypes.Structure):
    """flowloom_tensor."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
    )


class Options(ctypes.Structure):
    """flowloom_options, with the platform's allocator."""

    _fields_ = (
        ("weights", ctypes.c_char_p),
        ("mode", ctypes.c_int),
        ("device", ctypes.c_int),
        ("allocator", ctypes.c_void_p),
        ("threads", ctypes.c_int),
    )


class Library:
    """A model's library: what it is for, and models made from it. Any thread may use it."""

    def __init__(self, path: Path) -> None:
        """Open a library; DeviceError if what it needs is missing, or for another interface."""
        try:
            self._c: Any = ctypes.CDLL(str(path))
        except OSError as error:
            raise DeviceError(f"the module's library cannot be opened: {error}") from error
        for name in ("error", "version"):
            getattr(self._c, f"flowloom_{name}").restype = ctypes.c_char_p
        for name in ("input", "output"):
            getattr(self._c, f"flowloom_{name}").argtypes = [ctypes.c_size_t]
            getattr(self._c, f"flowloom_{name}").restype = ctypes.POINTER(TensorStructure)
            getattr(self._c, f"flowloom_{name}_count").restype = ctypes.c_size_t
        for name in ("weight_bytes", "arena_bytes"):
            getattr(self._c, f"flowloom_{name}").restype = ctypes.c_size_t
        self._c.flowloom_destroy.argtypes = [ctypes.c_void_p]
        if all(self._c.flowloom_check_interface(i) for i in (*OLDER_INTERFACES, INTERFACE)):
            raise DeviceError(f"{self._error()} (or compile the module again)")

    @property
    def version(self) -> str:
        """The model and target that it was built for."""
        return self._c.flowloom_version().decode()

    @property
    def weight_bytes(self) -> int:
        """Bytes of device memory of the weights."""
        return self._c.flowloom_weight_bytes()

    @property
    def arena_bytes(self) -> int:
        """Bytes of device memory of everything between the layers."""
        return self._c.flowloom_arena_bytes()

    def check(self, schedule: Schedule) -> None:
        """Raise ShapeError unless the library's inputs and outputs are those of a schedule."""
        for kind in ("input", "output"):
            count = getattr(self._c, f"flowloom_{kind}_count")()
            tensors = [getattr(self._c, f"flowloom_{kind}")(i).contents for i in range(count)]
            present = [
                (t.name.decode(), t.dtype.decode(), tuple(t.shape[: t.rank])) for t in tensors
            ]
            expected = [(a.name, a.dtype, a.shape) for a in schedule.of_kind(kind)]
            if present != expected:
                raise ShapeError(
                    f"the module's library has the {kind}s {present}, its schedule {expected}:"
                    " compile the model again"
                )

    def create(self, weights: Path, mode: str, ordinal: int) -> "Model":
        """A model with weights and arena on a device; DeviceError if that cannot be."""
        if mode not in MODES:
            raise DeviceError(f"unknown mode {mode!r}; the modes are {', '.join(MODES)}")
        options = Options(str(weights).encode(), list[str](MODES).index(mode), ordinal, None, 0)
        handle = ctypes.c_void_p()
        self._checked(self._c.flowloom_create(ctypes.byref(handle), ctypes.byref(options)))
        return Model(self, handle)

    def run_host(self, handle: Any, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run once on arrays of the host, in the model's order, and wait."""
        pointers = [
            (ctypes.c_void_p * max(1, len(arrays)))(*map(address, arrays))
            for arrays in (inputs, outputs)
        ]
        self._checked(self._c.flowloom_run_host(handle, *pointers))

    def profile(self, handle: Any, runs: int) -> str:
        """The time of every task as JSON, in microseconds, from runs with timing events."""
        size = ctypes.c_size_t(PROFILE_BYTES)
        while True:  # the digits, and so the length, may differ the next time
            text = ctypes.create_string_buffer(size.value + size.value // 4)
            arguments = (handle, runs, text, ctypes.c_size_t(len(text)), ctypes.byref(size))
            self._checked(self._c.flowloom_profile(*arguments))
            if size.value <= len(text):
                return text.value.decode()

    def destroy(self, handle: Any) -> None:
        """Wait for a model's last run and give its memory back."""
        self._c.flowloom_destroy(handle)

    def _checked(self, status: int) -> None:
        if status:
            raise DeviceError(self._error())

    def _error(self) -> str:
        return self._c.flowloom_error().decode(errors="replace")


class Model:
    """One flowloom_model until it is closed; calls of several threads follow each other."""

    def __init__(self, library: Library, handle: ctypes.c_void_p) -> None:
        self._library = library
        self._handle = handle
        self._lock = Lock()

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run once on arrays of the host."""
        with self._lock:
            self._library.run_host(self._open(), inputs, outputs)

    def profile(self, runs: int) -> str:
        """See `Library.profile`."""
        with self._lock:
            return self._library.profile(self._open(), runs)

    def close(self) -> None:
        """Give its memory back."""
        with self._lock:
            handle = self._handle
            self._handle = ctypes.c_void_p()
            self._library.destroy(handle)

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise DeviceError("this executor is closed: make another one")
        return self._handle

    def __del__(self) -> None:
        self.close()
