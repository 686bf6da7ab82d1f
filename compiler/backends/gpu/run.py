"""One queued run: done or not, waited for, or awaited."""

from collections.abc import Callable, Generator
from typing import Any

from compiler.backends.gpu.driver import Driver, Handle

Outputs = dict[str, Any]


class Run:
    """A queued run; `finish` completes its results once its event has happened."""

    def __init__(
        self,
        driver: Driver,
        event: Handle,
        results: Outputs,
        finish: Callable[["Run", Outputs], None],
        keep: object,
    ) -> None:
        self._driver = driver
        self._event = event
        self._results = results
        self._finish = finish
        self._keep = keep
        self._finished = False

    @property
    def event(self) -> int:
        """The event that happens at the run's end, for other libraries' streams to wait for."""
        return self._driver.handle_address(self._event)

    def done(self) -> bool:
        """Whether the run has ended; does not block."""
        if self._finished:
            return True
        self._driver.make_current()
        return self._driver.happened(self._event)

    def wait(self) -> Outputs:
        """Block until the run has ended; its outputs by name, in the model's order."""
        if not self._finished:
            self._driver.make_current()
            self._driver.synchronize_event(self._event)
            self._finish(self, self._results)
            self._finished = True
            self._keep = None
        return self._results

    def __await__(self) -> Generator[Any, None, Outputs]:
        import asyncio  # takes 10 ms, also of compilations for a CPU

        return asyncio.to_thread(self.wait).__await__()
