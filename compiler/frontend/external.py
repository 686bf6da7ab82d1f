"""External data: bytes of tensors in files next to the model."""

import mmap
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from weakref import finalize

import numpy as np

from compiler.errors import ModelError
from compiler.support.caches import check_regular

_LARGEST_READ = 1 << 20
"""The bytes of a file up to which it is read: a map would cost more, and can change."""


class ExternalFile:
    """A regular file of tensors: its bytes as they are when it is opened, mapped if it is large.

    A map shows what is written to the file later, too: whoever has read it asks `check_unwritten`.
    """

    def __init__(self, path: str, descriptor: int):
        self._path = path
        self._descriptor = descriptor
        close = finalize(self, os.close, descriptor)
        self._state = size, _ = self._present_state()
        self._is_mapped = size > _LARGEST_READ
        content = (
            mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            if self._is_mapped
            else os.pread(descriptor, size, 0)
        )
        self.data = np.ndarray(size, np.uint8, content)
        """All bytes of the file, read-only."""
        if not self._is_mapped:
            close()

    def check_unwritten(self) -> None:
        """Raise ModelError if the file was written to since it was opened.

        One that was replaced by renaming another is the same as before.
        """
        if self._is_mapped and self._present_state() != self._state:
            raise ModelError(
                f"{self._path!r}, which holds data of the model, was written to after the model "
                "was read: compile the model again, and replace such files by renaming others"
            )

    def _present_state(self) -> tuple[int, int]:
        """The size of the file in bytes, and when it was written to, in nanoseconds."""
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns


def is_mapped(memory: object) -> bool:
    """Whether an array is a view of a mapped file, which others may write to."""
    if isinstance(memory, np.ndarray):
        return is_mapped(memory.base)
    return isinstance(memory, mmap.mmap)


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The folder of a model file; `roots` are the real paths of folders that may hold its data.

    There are two if the model itself is a symbolic link, as in the caches of model hubs. `files`
    are those that were opened, by real path: all tensors of a file are of one state of it.
    """

    path: Path
    roots: tuple[str, ...]
    files: dict[str, ExternalFile] = field(
        default_factory=dict[str, ExternalFile], compare=False, repr=False
    )

    def __reduce__(self) -> tuple[type["ModelFolder"], tuple[Path, tuple[str, ...]]]:
        """A copy has opened no files: what was read of them is elsewhere."""
        return ModelFolder, (self.path, self.roots)

    def check_unwritten(self) -> None:
        """Raise ModelError if a file was written to since it was opened."""
        for file in self.files.values():
            file.check_unwritten()

    @classmethod
    def of(cls, model: str | os.PathLike[str]) -> "ModelFolder":
        """The folder of the model at a path."""
        path = Path(os.fspath(model))
        target = Path(os.path.realpath(path))
        return cls(path.parent, (os.path.realpath(path.parent), str(target.parent)))

    def holds(self, real: str) -> bool:
        """Whether a real path is in the folder or deeper."""
        return any(os.path.commonpath([root, real]) == root for root in self.roots)


def read_external(
    name: str, entries: Mapping[str, str], folder: ModelFolder | None, nbytes: int
) -> np.ndarray:
    """The `nbytes` bytes of tensor `name`, read-only, mapped from a large file; raises ModelError.

    `entries` are the tensor's `location`, `offset` and `length`. Only regular files in the model's
    folder are opened, after symbolic links are resolved.
    """
    location = entries.get("location", "")
    if folder is None:
        raise ModelError(
            f"the data of tensor {name!r} is in the file {location!r}, whose folder is not "
            "known: give the model's path instead of its contents"
        )
    offset = _number(name, entries, "offset", 0)
    length = _number(name, entries, "length", nbytes)
    if length != nbytes:
        raise ModelError(
            f"the data of tensor {name!r} have {length} bytes by its 'length', and its shape and "
            f"type need {nbytes}: export or download the model again"
        )
    if nbytes == 0:
        return np.zeros(0, np.uint8)
    file = _opened(name, _located(name, location, folder), folder)
    if file.data.nbytes < offset + nbytes:
        reason = f"it has {file.data.nbytes} bytes, not {nbytes} at {offset}"
        raise _missing(name, location, reason)
    return file.data[offset : offset + nbytes]


def _opened(name: str, path: str, folder: ModelFolder) -> ExternalFile:
    """A file at a real path, opened once; `name` is the first tensor that needs it."""
    if path not in folder.files:
        try:
            check_regular(path)  # opening a FIFO or device may act
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            check_regular(descriptor)
            folder.files[path] = ExternalFile(path, descriptor)
        except OSError as error:
            raise _missing(name, path, error.strerror or str(error)) from error
        except ValueError as error:
            raise _missing(name, path, str(error)) from error
    return folder.files[path]


def _number(name: str, entries: Mapping[str, str], key: str, default: int) -> int:
    """A size or offset in bytes from a tensor's entries."""
    text = entries.get(key)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        raise ModelError(
            f"the {key} of the external data of tensor {name!r} is {text!r}, which is not a number "
            "of bytes: export or download the model again"
        )
    return int(text)


def _located(name: str, location: str, folder: ModelFolder) -> str:
    """The real path of a tensor's file, which is in the model's folder."""
    path = Path(location)
    if not location or "\0" in location:
        raise ModelError(
            f"the location of the data of tensor {name!r} is {location!r}, which names no file: "
            "export or download the model again"
        )
    if path.is_absolute():
        raise ModelError(
            f"the data of tensor {name!r} are at the absolute path {location!r}, which may be any "
            "file: save the model again with a location relative to its folder"
        )
    real = os.path.realpath(folder.path / location)
    if folder.holds(real):
        try:
            real = os.path.realpath(folder.path / location, strict=True)
        except OSError as error:
            raise _missing(name, folder.path / location, str(error)) from error
    if not folder.holds(real):
        way = " by a symbolic link"
        remedy = ""
        if ".." in path.parts:
            way = ""
            remedy = ", and save the model again with its name as the location"
        raise ModelError(
            f"the data of tensor {name!r} is outside the model's folder: {location!r} leads to "
            f"{real!r}{way}; put the file itself next to the model{remedy}"
        )
    return real


def _missing(name: str, path: str | Path, reason: str) -> ModelError:
    return ModelError(
        f"the data of tensor {name!r} is missing: {str(path)!r} cannot be read ({reason}); put the "
        "complete file next to the model"
    )
