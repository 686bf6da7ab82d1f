"""One process at a time: locks that a crash releases."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from compiler.errors import ArtifactError


@contextmanager
def locked(path: str | os.PathLike[str], busy: str = "") -> Generator[None, None, None]:
    """Hold `FILE.lock`; wait for it, or raise ArtifactError(busy) if it is taken."""
    place = Path(f"{os.fspath(path)}.lock")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = place.open("w")
    except OSError as error:
        raise ArtifactError(f"cannot write {place}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise ArtifactError(busy) from error
        yield
