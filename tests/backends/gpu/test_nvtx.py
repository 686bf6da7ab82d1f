"""Runs are NVTX ranges where the variable asks for them, and only there."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from compiler.backends.gpu import nvtx
from compiler.errors import DeviceError
from tests.backends.gpu.cases import case
from tests.backends.gpu.recording import RecordingDriver
from tests.backends.gpu.test_graph import load


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The calls of a package `nvtx`."""
    calls: list[str] = []
    package = SimpleNamespace(push_range=calls.append, pop_range=lambda: calls.append("pop"))
    monkeypatch.setitem(sys.modules, "nvtx", package)
    nvtx.range_calls.cache_clear()
    yield calls
    nvtx.range_calls.cache_clear()


def run_once(mode: str) -> None:
    found = case(1, tasks=6, streams=2)
    executable: Any = load(found, RecordingDriver({}, seed=1))
    executor = executable.executor(mode=mode)
    executor.run(found.inputs(0))


@pytest.mark.parametrize("mode", ["graph", "streams"])
def test_a_run_and_its_launch_are_ranges(
    ranges: list[str], monkeypatch: pytest.MonkeyPatch, mode: str
):
    monkeypatch.setenv(nvtx.NVTX_VARIABLE, "1")
    run_once(mode)
    name = case(1, tasks=6, streams=2).schedule.name
    assert ranges == [f"flowloom run {name}", f"flowloom launch {mode}", "pop", "pop"]


def test_nothing_is_called_unless_it_is_asked_for(
    ranges: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(nvtx.NVTX_VARIABLE, raising=False)
    run_once("graph")
    assert ranges == []


def test_neither_the_package_nor_the_library_is_an_error(
    ranges: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(nvtx.NVTX_VARIABLE, "1")
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.setattr(nvtx, "NVTX_LIBRARY", "libnothing.so")
    with pytest.raises(DeviceError, match="pip install nvtx"):
        run_once("graph")
    assert ranges == []
