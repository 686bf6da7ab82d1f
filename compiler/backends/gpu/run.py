"""One queued run: done or not, waited for, or awaited."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from compiler.backends.gpu.driver import Driver, Handle

Outputs = dict[str, Any]


class Run:
    """The end of a run and its outputs; `finish` hands out results once the event has happened.

    `event` is the driver's event (an integer that other libraries can wait for on the device).
    """

    def __init__(
        self, driver: Driver, event: Handle, finish: Callable[["Run"], Outputs], keep: object
    ) -> None:
        self._driver, self._event, self._finish, self._keep = driver, event, finish, keep
        self._outputs: Outputs | None = None

    @property
    def event(self) -> int:
        """The event that happens at the run's end, for other libraries' streams to wait for."""
        return self._driver.handle_address(self._event)

    def done(self) -> bool:
        """Whether the run has ended; does not block."""
        if self._outputs is not None:
            return True
        self._driver.make_current()
        return self._driver.happened(self._event)

    def wait(self) -> Outputs:
        """Block until the run has ended; its outputs by name, in the model's order."""
        if self._outputs is None:
            self._driver.make_current()
            self._driver.synchronize_event(self._event)
            self._outputs = self._finish(self)
            self._keep = None
        return self._outputs

    def __await__(self) -> Generator[Any, None, Outputs]:
        return asyncio.to_thread(self.wait).__await__()
