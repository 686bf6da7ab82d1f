"""Named ranges on the host's timeline in Nsight Systems, where a variable asks for them."""

import ctypes
import os
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from compiler.errors import DeviceError

NVTX_VARIABLE = "FLOWLOOM_NVTX"
"""Set to 1, runs and graph launches are ranges in profilers."""

NVTX_LIBRARY = "libnvToolsExt.so.1"
"""The library of toolkits before CUDA 13; later ones have headers alone."""

# made once: every run enters it
_NO_RANGE = nullcontext()


class RangeCalls(NamedTuple):
    """Begins a range with a name, and ends the last one, on this thread."""

    push: Callable[[str], object]
    pop: Callable[[], object]


@cache
def range_calls() -> RangeCalls | None:
    """NVTX by the package `nvtx`, else by the toolkit's library; None unless it is asked for.

    Raises DeviceError if it is asked for and there is neither.
    """
    if os.environ.get(NVTX_VARIABLE, "0") in ("", "0"):
        return None
    try:
        package: Any = import_module("nvtx")
        return RangeCalls(package.push_range, package.pop_range)
    except ImportError:
        return _of_library()


def _of_library() -> RangeCalls:
    try:
        library = ctypes.CDLL(NVTX_LIBRARY)
    except OSError as error:
        raise DeviceError(
            f"{NVTX_VARIABLE} is set, but there is neither the package nvtx nor {NVTX_LIBRARY}:"
            " pip install nvtx, or unset it"
        ) from error

    def push(name: str) -> object:
        return library.nvtxRangePushA(name.encode())

    return RangeCalls(push, library.nvtxRangePop)


def profiled(name: str) -> AbstractContextManager[None]:
    """A range around the block, if ranges are asked for."""
    calls = range_calls()
    return _NO_RANGE if calls is None else _range(calls, name)


@contextmanager
def _range(calls: RangeCalls, name: str) -> Generator[None, None, None]:
    calls.push(name)
    try:
        yield
    finally:
        calls.pop()
