"""Streams of other libraries that runs are queued on."""

from typing import Any

import pytest

from tests.backends.gpu.test_binding import elsewhere, start


class LibraryStream:
    """A stream as PyTorch's, which counts how often it is asked for its address."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.asked = 0

    def __cuda_stream__(self) -> tuple[int, int]:
        self.asked += 1
        return 0, self.address


def test_a_stream_is_asked_for_its_address_only_when_it_changes(monkeypatch: pytest.MonkeyPatch):
    driver, executor = start()
    streams = [LibraryStream(driver.handle_address(driver.create_stream())) for _ in range(2)]
    launched: list[int] = []
    launch = driver.launch_graph

    def recorded(executable: Any, stream: Any) -> None:
        launched.append(driver.handle_address(stream))
        launch(executable, stream)

    monkeypatch.setattr(driver, "launch_graph", recorded)
    inputs, outputs = (elsewhere(driver, executor, kind) for kind in ("input", "output"))
    turns = [streams[number] for number in (0, 0, 1, 1, 0)]
    for stream in turns:
        executor.submit(inputs, outputs=outputs, stream=stream)
    assert launched == [stream.address for stream in turns]
    assert [stream.asked for stream in streams] == [2, 1]
