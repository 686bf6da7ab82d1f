"""Files that commands write, and whether they can be: checked before the work, not after it."""

import os
import zipfile
from pathlib import Path
from typing import Any, cast

import numpy as np

from compiler.artifact.manifest import ARTIFACT_MANIFEST, PROGRAM_MANIFEST
from compiler.backends.memory import Array
from compiler.errors import ArtifactError, FlowloomError

MANIFESTS = (ARTIFACT_MANIFEST.file, PROGRAM_MANIFEST.file)
"""The files by which a directory is an artifact, which another may replace."""


def check_file(path: Path | None) -> None:
    """Raise FlowloomError for a file that cannot be written; None names no file."""
    if path is None:
        return
    if path.is_dir():
        raise FlowloomError(f"cannot write {path}: it is a directory; name a file in it")
    if not path.parent.is_dir():
        raise FlowloomError(f"cannot write {path}: there is no directory {path.parent}; make it")
    if not os.access(path.parent, os.W_OK):
        raise FlowloomError(f"cannot write {path}: {path.parent} is not yours to write to")


def check_artifact(path: Path) -> None:
    """Raise ArtifactError for a directory that cannot be made, or holds something else."""
    if os.path.lexists(path):
        if not path.is_dir() or (any(path.iterdir()) and not _is_artifact(path)):
            raise ArtifactError(f"{path} exists and is not an artifact: choose another directory")
        return
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir():
        raise ArtifactError(f"cannot write {path}: {above} is not a directory")
    if not os.access(above, os.W_OK):
        raise ArtifactError(f"cannot write {path}: {above} is not yours to write to")


def _is_artifact(path: Path) -> bool:
    return any((path / name).is_file() for name in MANIFESTS)


def write_npz(path: Path, outputs: dict[str, Array]) -> None:
    """Write what numpy.savez would; its arguments clash with an output named `file`."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w") as archive:
            for name, array in outputs.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(cast(Any, file), array, allow_pickle=False)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FlowloomError(f"cannot write {path}: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file atomically, replacing an older one."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FlowloomError(f"cannot write {path}: {error.strerror}") from error
