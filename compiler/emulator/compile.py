"""Builds the engine and emulated kernels with the host's C++ compiler."""

import hashlib
import io
import os
import platform
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from compiler.caches import cache_directory, writable
from compiler.errors import DeviceError

HERE = Path(__file__).parent
KERNEL_HEADERS = HERE.parent / "kernels" / "cuda"
"""Headers that kernels include; those in `include` stand in for the ones of the same name."""

FLAGS = (
    *("-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", "-w", "-ffp-contract=off"),
    *("-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing"),
    "-fstack-clash-protection",
)
"""No fused multiply-adds, so that every host computes the same bits; CUDA text breaks aliasing;
a stack that overflows meets its guard."""

SANITIZED = "FLOWLOOM_EMULATOR_SANITIZE"
"""The environment variable that builds the engine and kernels with AddressSanitizer.

Its runtime must come first in the process (LD_PRELOAD).
"""

KERNEL, ENGINE = "kernel.so", "engine.so"
"""The members of a compiled kernel's archive: it runs where no compiler is installed."""


@cache
def host_compiler() -> str:
    """The path of g++, or of another C++ compiler; DeviceError without one."""
    chosen = os.environ.get("CXX", "").split()
    for name in (*chosen[:1], "g++", "clang++", "c++"):
        found = shutil.which(name)
        if found is not None:
            return found
    raise DeviceError(
        "the target 'emu' needs a C++ compiler on the PATH: install g++ (Debian: apt-get install "
        "g++), or name one in the environment variable CXX"
    )


@cache
def version() -> str:
    """What decides the engine's binary interface: its sources and the machine's kind."""
    kind = f"{platform.system()} {platform.machine()}"
    digest = hashlib.sha256(" ".join([kind, *_sanitizer()]).encode())
    for path in sorted(p for p in HERE.rglob("*") if p.suffix in (".h", ".cpp", ".cuh")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def compile_kernels(source: str, symbols: Iterable[str]) -> bytes:
    """An archive of the shared object of some kernels and of the engine that runs it.

    `source` is CUDA C++ that includes headers of `compiler/kernels/cuda`. Raises DeviceError with
    the compiler's messages.
    """
    names = "".join(f"EMULATED_KERNEL({symbol})\n" for symbol in symbols)
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        path, built = Path(folder) / "kernel.cpp", Path(folder) / KERNEL
        path.write_text(f'#include "emulated.h"\n{source}\n{names}', encoding="utf-8")
        includes = [f"-I{HERE / 'include'}", f"-I{HERE}", f"-I{KERNEL_HEADERS}"]
        _compile([*includes, "-o", str(built), str(path)])
        return _archive(built.read_bytes(), engine())


def _archive(kernel: bytes, engine: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.comment = version().encode()
        for name, data in ((KERNEL, kernel), (ENGINE, engine)):
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return content.getvalue()


def unpack(code: bytes) -> tuple[bytes, bytes] | None:
    """The kernel and engine of an archive; None if it is for another machine or engine."""
    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        if archive.comment != version().encode():
            return None
        return archive.read(KERNEL), archive.read(ENGINE)


@cache
def engine() -> bytes:
    """The engine's shared object, kept in the cache directory once it is built."""
    directory = cache_directory("emulator")
    if directory is None:
        return _build_engine()
    path = directory / f"engine-{version()}.so"
    try:
        return path.read_bytes()
    except OSError:
        content = _build_engine()
    if writable(directory):
        _keep(path, content)
    return content


def _build_engine() -> bytes:
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        built = Path(folder) / ENGINE
        sources = [str(path) for path in sorted(HERE.glob("*.cpp"))]
        _compile(["-fvisibility=default", "-o", str(built), *sources, "-ldl"])
        return built.read_bytes()


def _keep(path: Path, content: bytes) -> None:
    """Store a file in one step; where that cannot be, the next process builds it again."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError:
        return


def _sanitizer() -> list[str]:
    wanted = os.environ.get(SANITIZED)
    return ["-fsanitize=address", "-fno-omit-frame-pointer"] if wanted else []


def _compile(arguments: Sequence[str]) -> None:
    command = [host_compiler(), *FLAGS, *_sanitizer(), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise DeviceError(f"{command[0]} failed:\n{ran.stderr[:4000]}")
