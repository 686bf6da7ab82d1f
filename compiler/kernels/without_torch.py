"""Lets TVM be imported without PyTorch, which it imports wherever that is installed.

That takes seconds, and nothing here needs it. Where a process has imported PyTorch before, TVM
finds it.
"""

import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from inspect import currentframe
from types import FrameType, ModuleType

TVM = ("tvm", "tvm_ffi")


class _WithoutTorch(MetaPathFinder):
    """Finds no PyTorch for TVM, which then takes it as not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == "torch" and _importer().partition(".")[0] in TVM:
            raise ModuleNotFoundError("TVM does without PyTorch", name=fullname)


def _importer() -> str:
    """The name of the module that imports another now."""
    names = (frame.f_globals.get("__name__", "") for frame in _frames(currentframe()))
    return next((n for n in names if n != __name__ and not n.startswith("importlib.")), "")


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def hide_torch() -> None:
    """Keep TVM from importing PyTorch in this process."""
    if not any(isinstance(finder, _WithoutTorch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WithoutTorch())
