"""External data: bytes of tensors in files next to the model."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compiler.errors import ModelError

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The folder of a model file; `roots` are the real paths of folders that may hold its data.

    There are two if the model itself is a symbolic link, as in the caches of model hubs.
    """

    path: Path
    roots: tuple[str, ...]

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
    """A read-only memory map of the `nbytes` bytes of tensor `name`; raises ModelError.

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
    path = _located(name, location, folder)
    try:
        _check_regular(name, path, os.stat(path).st_mode)  # opening a FIFO or device may act
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _check_regular(name, path, status.st_mode)
            if status.st_size < offset + nbytes:
                raise _missing(
                    name, path, f"it has {status.st_size} bytes, not {nbytes} at {offset}"
                )
            return np.memmap(file, np.uint8, "r", offset, (nbytes,))
    except (OSError, ValueError) as error:
        raise _missing(name, path, str(error)) from error


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
        way, remedy = " by a symbolic link", ""
        if ".." in path.parts:
            way, remedy = "", ", and save the model again with its name as the location"
        raise ModelError(
            f"the data of tensor {name!r} is outside the model's folder: {location!r} leads to "
            f"{real!r}{way}; put the file itself next to the model{remedy}"
        )
    return real


def _check_regular(name: str, path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise ModelError(
            f"the data of tensor {name!r} would come from {path!r}, which is {kind}: put a file of "
            "its bytes there"
        )


def _missing(name: str, path: str | Path, reason: str) -> ModelError:
    return ModelError(
        f"the data of tensor {name!r} is missing: {str(path)!r} cannot be read ({reason}); put the "
        "complete file next to the model"
    )
