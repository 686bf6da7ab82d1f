"""Replaces directories atomically: written to a temporary one first, then moved."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from compiler.errors import ArtifactError


@contextmanager
def replacing(place: Path) -> Generator[Path]:
    """A path to write a directory to, which then replaces `place`.

    If anything fails or interrupts that, `place` is the old directory or the new one. Raises
    ArtifactError for an OSError.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        new, old = temporary / "new", temporary / "old"
        try:
            yield new
            _move(new, place, old)
        finally:
            if os.path.lexists(place) or not old.exists():
                shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise ArtifactError(f"cannot write {place}: {error.strerror or error}") from error


def _move(new: Path, place: Path, old: Path) -> None:
    """Move `place` to `old` and `new` to `place`; undone if that fails."""
    try:
        if os.path.lexists(place):
            place.rename(old)
        new.rename(place)
    except BaseException:
        if old.exists() and not os.path.lexists(place):
            old.rename(place)
        raise


def contents(directory: Path) -> list[str]:
    """Files, links and empty directories below a directory, by their names in it.

    Raises ArtifactError if it cannot be listed.
    """
    found: list[str] = []
    try:
        for path in sorted(directory.iterdir()):
            below = contents(path) if path.is_dir() and not path.is_symlink() else []
            found += [f"{path.name}/{name}" for name in below] or [path.name]
    except OSError as error:
        raise ArtifactError(f"cannot read {directory}: {error.strerror}") from error
    return found
