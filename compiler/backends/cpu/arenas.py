"""Arenas that runs take and give back, so that schedules which never run at once share one."""

from collections import deque
from typing import Any

from compiler.backends.memory import Array, aligned_bytes
from compiler.support.memory import require


class ArenaPool:
    """As many arenas as runs were in progress at once, each of the largest size asked for."""

    def __init__(self) -> None:
        self._idle: deque[Array] = deque()
        self._largest = 0

    def __reduce__(self) -> tuple[type["ArenaPool"], tuple[Any, ...]]:
        """A copy begins without arenas."""
        return ArenaPool, ()

    @property
    def idle_bytes(self) -> int:
        """Bytes of the arenas that no run has now."""
        return sum(arena.nbytes for arena in self._idle)

    def take(self, nbytes: int) -> Array:
        """At least so many aligned bytes, of any content, that no other run has.

        Raises DeviceError if there are not that many.
        """
        self._largest = max(self._largest, nbytes)
        try:
            # a deque's operations are atomic: runs of several threads need no lock
            arena = self._idle.pop()
        except IndexError:
            return self._new()
        return arena if arena.nbytes >= nbytes else self._new()

    def _new(self) -> Array:
        require(self._largest, "an arena")
        return aligned_bytes(self._largest)

    def give_back(self, arena: Array) -> None:
        """Let later runs use an arena, unless it is too small for some."""
        if arena.nbytes >= self._largest:
            self._idle.append(arena)

    def close(self) -> None:
        """Release the arenas that no run has."""
        self._idle.clear()
        self._largest = 0
