"""The profile of a session: a Chrome trace of what it did, as onnxruntime writes it."""

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from threading import Lock, get_ident
from typing import Any

from compiler.errors import ArgumentError


class SessionProfile:
    """Events of a session since it was made; times are microseconds of the monotonic clock."""

    def __init__(self, prefix: str) -> None:
        moment = datetime.now().strftime("%Y-%m-%d_%H-%M-%S_%f")[:-3]
        self.path = f"{prefix}_{moment}.json"
        self.start_ns = time.monotonic_ns()
        self._events: list[dict[str, Any]] = []
        self._lock = Lock()

    @contextmanager
    def event(self, name: str, **details: Any) -> Generator[None]:
        """Record what the block does."""
        begun = time.monotonic_ns()
        try:
            yield
        finally:
            self.add(name, begun, time.monotonic_ns() - begun, **details)

    def add(self, name: str, begun_ns: int, took_ns: float, **details: Any) -> None:
        """Record an event."""
        event = {
            "cat": "Session",
            "pid": os.getpid(),
            "tid": get_ident(),
            "dur": took_ns / 1e3,
            "ts": (begun_ns - self.start_ns) / 1e3,
            "ph": "X",
            "name": name,
            "args": {key: str(value) for key, value in details.items()},
        }
        with self._lock:
            self._events.append(event)

    def write(self) -> str:
        """Write the events to the file, whose name is returned; raises ArgumentError."""
        try:
            with self._lock, open(self.path, "w", encoding="utf-8") as file:
                json.dump(self._events, file, indent=1)
        except (OSError, ValueError) as error:  # a name with NUL is a ValueError
            reason = error.strerror if isinstance(error, OSError) else error
            raise ArgumentError(
                f"cannot write the profile {self.path!r}: {reason}; correct profile_file_prefix"
            ) from error
        return self.path
