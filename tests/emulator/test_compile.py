"""Kernels are compiled with a prepared header, and without one where it cannot be used."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.emulator import compile as emulator
from tests.tools import needs

KERNEL = 'extern "C" __global__ void one(int* to) { to[0] = 1; }'


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a header in a new cache; the engine stays in the usual one."""
    emulator.engine()
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path))
    emulator.prepared_header.cache_clear()
    folder = emulator.prepared_header()
    assert folder is not None
    yield folder
    emulator.prepared_header.cache_clear()


def headers_read(folder: Path, source: Path) -> list[str]:
    """What g++ reads for a text, with a mark at what is prepared."""
    source.write_text('#include "emulated.h"\n')
    includes = [f"-I{each}" for each in (folder, emulator.HERE / "include", emulator.HERE)]
    flags = (emulator.KERNELS_OPTIMISED, *emulator.FLAGS)
    command = ["g++", *flags, *includes, "-H", "-fsyntax-only", source]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()


@needs("g++")
def test_a_prepared_header_is_read_in_place_of_all_others(prepared: Path, tmp_path: Path):
    marked, *others = headers_read(prepared, tmp_path / "kernel.cpp")
    assert marked == f"! {prepared}/emulated.h.gch"
    assert not [line for line in others if line.startswith(".")]
    emulator.prepared_header.cache_clear()
    written = (prepared / "emulated.h.gch").stat().st_mtime_ns
    assert emulator.prepared_header() == prepared
    assert (prepared / "emulated.h.gch").stat().st_mtime_ns == written


@needs("g++")
@pytest.mark.parametrize(("name", "text"), [("emulated.h.gch", "odd"), ("emulated.h", "#error")])
def test_kernels_are_compiled_where_a_prepared_header_cannot_be_used(
    prepared: Path, name: str, text: str
):
    (prepared / "emulated.h.gch").unlink()
    (prepared / name).write_text(text)
    kernel, _ = emulator.unpack(emulator.compile_kernels(KERNEL, ["one"])) or (b"", b"")
    assert kernel.startswith(b"\x7fELF")
    with pytest.raises(emulator.DeviceError, match="no_such_function"):
        emulator.compile_kernels(KERNEL.replace("1;", "no_such_function();"), ["one"])


def test_nothing_is_prepared_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "file" / "cache"))
    emulator.prepared_header.cache_clear()
    with pytest.warns(UserWarning, match="working without a cache"):
        assert emulator.prepared_header() is None
    emulator.prepared_header.cache_clear()
