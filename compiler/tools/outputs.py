"""Files that commands write, and whether they can be: checked before the work, not after it."""

import os
import zipfile
from pathlib import Path
from typing import Any, cast

import numpy as np

from compiler.artifact.replacing import check_place
from compiler.backends.memory import Array
from compiler.errors import FlowloomError
from compiler.support.caches import write_whole


def check_file(path: Path | None) -> None:
    """Raise FlowloomError for a file that cannot be written; None names no file."""
    if path is None:
        return
    if path.is_dir():
        raise FlowloomError(f"cannot write {path}: it is a directory; name a file in it")
    if path.exists() and not path.is_file():
        raise FlowloomError(f"cannot write {path}: it is not a file; name another")
    if not path.parent.is_dir():
        raise FlowloomError(f"cannot write {path}: there is no directory {path.parent}; make it")
    if not os.access(path.parent, os.W_OK):
        raise FlowloomError(f"cannot write {path}: {path.parent} is not yours to write to")


def check_folder(path: Path, *names: str) -> None:
    """Raise FlowloomError for a folder that cannot be made, or files that it cannot get."""
    check_place(path)
    if os.path.lexists(path) and not path.is_dir():
        raise FlowloomError(f"cannot write to {path}: it is not a directory; name another")
    for name in names if path.is_dir() else ():
        check_file(path / name)


def write_npz(path: Path, outputs: dict[str, Array]) -> None:
    """Write what numpy.savez would; its arguments clash with an output named `file`."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w") as archive:
            for name, array in outputs.items():
                # zipfile has to know before it writes whether an entry may exceed 4 GiB
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(cast(Any, file), array, allow_pickle=False)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FlowloomError(f"cannot write {path}: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file atomically, replacing an older one."""
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise FlowloomError(f"cannot write {path}: {error.strerror}") from error
