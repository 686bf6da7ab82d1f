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
from contextlib import suppress
from functools import cache
from pathlib import Path

from compiler.errors import DeviceError
from compiler.support.caches import (
    cache_directory,
    compiled_once,
    read_sealed,
    with_headers,
    writable,
    write_sealed,
    write_whole,
)

HERE = Path(__file__).parent
KERNELS = HERE.parent / "kernels" / "gpu"
"""The folder of the headers that kernels include; those in `include` replace some of them."""

KERNELS_OPTIMISED = "-O2"
"""How far kernels are optimised; results have the same bits in any case."""

FLAGS = (
    *("-std=c++17", "-fPIC", "-shared", "-pthread", "-w", "-ffp-contract=off"),
    *("-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing"),
    "-fstack-clash-protection",
)
"""No fused multiply-adds, so that every host computes the same bits; CUDA text breaks aliasing;
a stack that overflows meets its guard; a library with unique symbols could never be unloaded."""

SANITIZED = "FLOWLOOM_EMULATOR_SANITIZE"
"""The environment variable that builds the engine and kernels with AddressSanitizer.

Its runtime must come first in the process (LD_PRELOAD).
"""

EMULATED_HEADER = "emulated.h"
"""What the text of every kernel includes first."""

KERNEL, ENGINE = "kernel.so", "engine.so"
"""The members of a compiled kernel's archive: it runs where no compiler is installed."""


@cache
def host_compiler() -> str:
    """The path of g++, or of another C++ compiler; DeviceError without one."""
    chosen = os.environ.get("CXX", "").split()
    for name in (*chosen[:1], "g++", "clang++", "c++"):
        path = shutil.which(name)
        if path is not None:
            return path
    raise DeviceError(
        "the target 'emu' needs a C++ compiler on the PATH: install g++ (Debian: apt-get install "
        "g++), or name one in the environment variable CXX"
    )


@cache
def version() -> str:
    """A hash of the engine's sources and the kind of machine, which decide its binary interface."""
    kind = f"{platform.system()} {platform.machine()}"
    digest = hashlib.sha256(" ".join([kind, *_sanitizer()]).encode())
    for path in sorted(p for p in HERE.rglob("*") if p.suffix in (".h", ".cpp", ".cuh")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def compile_kernels(source: str, symbols: Iterable[str]) -> bytes:
    """An archive of the shared object of some kernels and of the engine that runs it.

    `source` is CUDA C++ that includes headers of `compiler/kernels/gpu`. Raises DeviceError with
    the compiler's messages.
    """
    names = "".join(f"EMULATED_KERNEL({symbol})\n" for symbol in symbols)
    text = f'#include "{EMULATED_HEADER}"\n{source}\n{names}'
    inputs = (version(), _how_kernels_are_compiled(), with_headers(text, _headers()))
    kernel = compiled_once(lambda: _shared_object(text), (_shared_object, _compile), *inputs)
    return _archive(kernel, engine())


def _shared_object(text: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        path = Path(folder) / "kernel.cpp"
        built = Path(folder) / KERNEL
        path.write_text(text, encoding="utf-8")
        command = [
            *(KERNELS_OPTIMISED, *_includes(*_header_folders())),
            *("-o", str(built), str(path)),
        ]
        prepared = prepared_header()
        try:
            _compile([f"-I{prepared}", *command] if prepared else command)
        except DeviceError:
            if prepared is None:
                raise
            _compile(command)  # some versions of g++ stop where they cannot map a prepared header
        return built.read_bytes()


def _includes(*more: Path) -> list[str]:
    return [f"-I{folder}" for folder in (HERE / "include", HERE, *more)]


@cache
def prepared_header() -> Path | None:
    """The folder of the header as g++ reads it in a third of the time; None without a cache.

    A compiler that cannot use it reads the header itself, which comes later on the path.
    """
    directory = cache_directory("emulator")
    if directory is None or not writable(directory):
        return None
    digest = hashlib.sha256(_how_kernels_are_compiled().encode()).hexdigest()[:8]
    folder = directory / f"header-{version()}-{digest}"
    path = folder / f"{EMULATED_HEADER}.gch"
    if not path.is_file():
        content = _build_header()
        with suppress(OSError):  # where it cannot be written, the next process builds it again
            folder.mkdir(exist_ok=True)
            write_whole(path, content)
    return folder if path.is_file() else None


def _how_kernels_are_compiled() -> str:
    return f"{_identity(host_compiler())} {KERNELS_OPTIMISED} {FLAGS}"


@cache
def _headers() -> dict[str, str]:
    """The headers that kernels include, by file name; the emulator's own are taken first."""
    folders = (KERNELS, HERE / "include")
    return {path.name: path.read_text() for folder in folders for path in folder.rglob("*.cuh")}


def _identity(program: str) -> str:
    """A program's path and when it was written."""
    return f"{os.path.realpath(program)} {os.stat(program).st_mtime_ns}"


def _build_header() -> bytes:
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        built = Path(folder) / f"{EMULATED_HEADER}.gch"
        header = str(HERE / "include" / EMULATED_HEADER)
        _compile([KERNELS_OPTIMISED, *_includes(), "-x", "c++-header", header, "-o", str(built)])
        return built.read_bytes()


def _header_folders() -> list[Path]:
    """Every folder that holds a header of kernels."""
    return sorted({path.parent for path in KERNELS.rglob("*.cuh")})


def _archive(kernel: bytes, engine: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.comment = version().encode()
        for name, data in ((KERNEL, kernel), (ENGINE, engine)):
            # its date is fixed, so that equal content has equal bytes
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return content.getvalue()


def is_present(code: bytes) -> bool:
    """Whether an archive is for this machine and engine."""
    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        return archive.comment == version().encode()


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
    path = directory / f"engine-{version()}"
    stored = read_sealed(path)
    if stored is not None:
        return stored
    content = _build_engine()
    if writable(directory):
        write_sealed(path, content)
    return content


def _build_engine() -> bytes:
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        built = Path(folder) / ENGINE
        sources = [str(path) for path in sorted(HERE.glob("*.cpp"))]
        _compile(["-O2", "-fvisibility=default", "-o", str(built), *sources, "-ldl"])
        return built.read_bytes()


def _sanitizer() -> list[str]:
    enabled = os.environ.get(SANITIZED)
    # Registers that nothing has set hold large numbers, which show in results.
    uninitialised = "-ftrivial-auto-var-init=pattern"
    return ["-fsanitize=address", "-fno-omit-frame-pointer", uninitialised] if enabled else []


def _compile(arguments: Sequence[str]) -> None:
    command = [host_compiler(), *FLAGS, *_sanitizer(), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise DeviceError(f"{command[0]} failed:\n{ran.stderr[:4000]}")
