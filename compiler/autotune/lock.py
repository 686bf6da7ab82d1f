"""One process at a time: locks that a crash releases."""

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from compiler.backends.gpu.driver import DeviceInfo
from compiler.errors import ArtifactError


def measuring(device: DeviceInfo) -> AbstractContextManager[None]:
    """Wait until no other process of this user measures on the same device, and keep it so.

    A device's name is its number as this process sees it; without a folder there is no lock.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(os.sep, "-")
    folder = Path(tempfile.gettempdir(), f"flowloom-{os.getuid()}")
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return nullcontext()
    return locked(folder / f"measuring-{visible}-{device.ordinal}")


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
