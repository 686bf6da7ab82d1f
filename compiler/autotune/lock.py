"""One process at a time: locks that a crash releases."""

import fcntl
import json
import logging
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep, time
from typing import TextIO

from compiler.backends.gpu.driver import DeviceInfo
from compiler.errors import ArtifactError, DeviceError
from compiler.support.caches import check_regular

_LOG = logging.getLogger(__name__)

POLL_SECONDS = 0.02
REMINDER_SECONDS = 30.0
"""How often a lock that another process holds is tried, and how often that is said."""


class LockHeldError(ArtifactError):
    """Another process holds a lock for longer than this one waits."""


class DeviceTakenError(DeviceError):
    """Another process measures on a device for longer than this one waits."""


@contextmanager
def measuring(device: DeviceInfo, patience: float) -> Generator[float, None, None]:
    """Wait until no other process of this user measures on the same device, and keep it so.

    Gives the seconds of waiting; raises DeviceTakenError after `patience` seconds. A device's name
    is its number as this process sees it; where a lock cannot be made, there is none.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(os.sep, "-")
    # a folder for each user: another user's lock could not be opened for writing
    folder = Path(tempfile.gettempdir(), f"flowloom-{os.getuid()}")
    start = monotonic()
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / f"measuring-{visible}-{device.ordinal}", patience))
        except LockHeldError as error:
            raise DeviceTakenError(f"the device is taken: {error}") from error
        except ArtifactError as error:
            _LOG.debug("measuring without a lock: %s", error)
        waited = monotonic() - start
        yield waited if waited > POLL_SECONDS else 0.0


@contextmanager
def locked(path: str | os.PathLike[str], patience: float, busy: str = "") -> Generator[None]:
    """Hold `FILE.lock`; wait for it for `patience` seconds, then raise LockHeldError.

    The file names its holder, so that a process that waits can say for whom; an error begins with
    `busy`. Raises ArtifactError where there can be no lock.
    """
    lock_path = Path(f"{os.fspath(path)}.lock")
    try:
        lock_path.parent.mkdir(parents=True, exist_ok=True)
        if lock_path.exists():
            check_regular(lock_path)
        # a folder of temporary files may hold others' links, and what is locked is written to
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        file = os.fdopen(os.open(lock_path, flags, 0o666), "a+")
    except OSError as error:
        raise ArtifactError(f"cannot write {lock_path}: {error.strerror or error}") from error
    with file:
        if not _acquired(file, lock_path):
            # a user sees at once for whom this process waits, and every now and then again
            start = reminder = monotonic()
            while not _acquired(file, lock_path):
                if monotonic() - start >= patience:
                    raise LockHeldError(f"{busy}{_holder(lock_path)} holds {lock_path}")
                if monotonic() >= reminder:
                    reminder += REMINDER_SECONDS
                    _LOG.warning("waiting for %s, which holds %s", _holder(lock_path), lock_path)
                sleep(POLL_SECONDS)
        file.truncate(0)
        json.dump({"pid": os.getpid(), "command": sys.argv, "since": time()}, file)
        file.flush()
        yield


def _acquired(file: TextIO, path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # some network file systems have no locks
        raise ArtifactError(
            f"cannot lock {path}: {error.strerror or error}; use a folder whose file system"
            " has locks"
        ) from error
    return True


def _holder(path: Path) -> str:
    """The process that wrote its name into a lock's file."""
    try:
        holder = json.loads(path.read_text())
        command = " ".join(map(str, holder["command"]))[:120]
        return f"process {holder['pid']} ({command}; for {time() - holder['since']:.0f} s)"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"  # which is about to write its name
