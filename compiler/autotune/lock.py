"""One process at a time: locks that a crash releases."""

import fcntl
import json
import logging
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from time import monotonic, sleep, time
from typing import TextIO

from compiler.backends.gpu.driver import DeviceInfo
from compiler.errors import ArtifactError

_LOG = logging.getLogger(__name__)

POLL_SECONDS = 0.02
REMINDER_SECONDS = 30.0
"""How often a lock that another process holds is tried, and how often that is said."""


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
    """Hold `FILE.lock`; wait for it, or raise ArtifactError(busy) if it is taken.

    The file names its holder, so that a process that waits can say for whom.
    """
    lock_path = Path(f"{os.fspath(path)}.lock")
    try:
        lock_path.parent.mkdir(parents=True, exist_ok=True)
        file = lock_path.open("a+")
    except OSError as error:
        raise ArtifactError(f"cannot write {lock_path}: {error.strerror}") from error
    with file:
        if not _acquired(file):
            if busy:
                raise ArtifactError(f"{busy} ({_holder(lock_path)} holds {lock_path})")
            # a user sees at once for whom this process waits, and every now and then again
            reminder = monotonic()
            while not _acquired(file):
                if monotonic() >= reminder:
                    reminder += REMINDER_SECONDS
                    _LOG.warning("waiting for %s, which holds %s", _holder(lock_path), lock_path)
                sleep(POLL_SECONDS)
        file.truncate(0)
        json.dump({"pid": os.getpid(), "command": sys.argv, "since": time()}, file)
        file.flush()
        yield


def _acquired(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(path: Path) -> str:
    """The process that wrote its name into a lock's file."""
    try:
        holder = json.loads(path.read_text())
        command = " ".join(map(str, holder["command"]))[:120]
        return f"process {holder['pid']} ({command}; for {time() - holder['since']:.0f} s)"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"  # which is about to write its name
