"""Replaces directories atomically: written to a temporary one first, then moved."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from compiler.errors import ArtifactError


@contextmanager
def replacing(directory: Path) -> Generator[Path]:
    """A path to write a directory to, which then replaces `directory`.

    If anything fails or interrupts that, `directory` is the old directory or the new one. Raises
    ArtifactError for an OSError.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        # In the same directory, as a rename is atomic within one file system only.
        temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
        new = temporary / "new"
        old = temporary / "old"
        try:
            yield new
            _move(new, directory, old)
        finally:
            if os.path.lexists(directory) or not old.exists():
                shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise ArtifactError(f"cannot write {directory}: {error.strerror or error}") from error


def _move(new: Path, directory: Path, old: Path) -> None:
    """Move `directory` to `old` and `new` to `directory`; undone if that fails."""
    try:
        if os.path.lexists(directory):
            directory.rename(old)
        new.rename(directory)
    # Ctrl-C, too, may come between the two renames.
    except BaseException:
        if old.exists() and not os.path.lexists(directory):
            old.rename(directory)
        raise


def check_place(path: Path) -> None:
    """Raise ArtifactError unless something can be written to a path, which may exist."""
    parents = (parent for parent in path.absolute().parents if os.path.lexists(parent))
    above = next(parents, None)
    if above is None:
        raise ArtifactError(f"cannot write {path}, which is above all: name a directory in it")
    if not above.is_dir():
        raise ArtifactError(f"cannot write {path}: {above} is not a directory")
    if not os.access(above, os.W_OK):
        raise ArtifactError(f"cannot write {path}: {above} is not yours to write to")


def contents(directory: Path) -> list[str]:
    """Files, links and empty directories below a directory, by their names in it.

    Raises ArtifactError if it cannot be listed.
    """
    names: list[str] = []
    try:
        for path in sorted(directory.iterdir()):
            below = contents(path) if path.is_dir() and not path.is_symlink() else []
            names += [f"{path.name}/{name}" for name in below] or [path.name]
    except OSError as error:
        raise ArtifactError(f"cannot read {directory}: {error.strerror}") from error
    return names
