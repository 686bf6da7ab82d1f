"""Streams of any library that callers name for a run."""

from typing import Any

from compiler.backends.gpu.driver import Driver, Handle
from compiler.errors import DeviceError
from compiler.support.arguments import taking


class CallerStreams:
    """The device's handles of the streams that runs are queued on.

    The last one is remembered, as asking a library for its address takes a microsecond before
    each launch: an object is one stream for as long as it lives.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._last: object = None
        self._address = 0
        self._handle: Handle = None

    def handle(self, stream: Any) -> Handle:
        """The same handle for all objects with the address of the last; see `stream_address`."""
        if stream is not self._last:
            address = stream_address(stream)
            if self._handle is None or address != self._address:
                self._address = address
                self._handle = self._driver.stream(address)
            self._last = stream
        return self._handle


def stream_address(stream: Any) -> int:
    """A stream of any library as an integer: its `__cuda_stream__`, PyTorch's or CuPy's own."""
    if isinstance(stream, int):
        return stream
    with taking("a run", stream=stream):
        if hasattr(stream, "__cuda_stream__"):
            return int(stream.__cuda_stream__()[1])
        for attribute in ("cuda_stream", "ptr"):
            if hasattr(stream, attribute):
                return int(getattr(stream, attribute))
    raise DeviceError(
        f"stream= takes an integer handle or a stream of PyTorch, CuPy or cuda.core, "
        f"not {type(stream).__name__}"
    )
