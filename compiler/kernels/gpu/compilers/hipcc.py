"""CUDA text to a host object file with code for AMD GPUs, by the HIP compiler."""

import re
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from compiler.errors import KernelError
from compiler.kernels.gpu.compilers.hip_toolchain import (
    FILES,
    hip_generator,
    hip_version,
    run_hip_compiler,
)
from compiler.kernels.gpu.headers import headers
from compiler.support.caches import compiled_once, with_headers
from compiler.target.target import GpuTarget

FLAGS = (
    *("-x", "hip", "-c", "-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden"),
    *("-DFLOWLOOM_HIP", "-Wno-unused-command-line-argument"),
)

UNKNOWN = re.compile(
    r"invalid target ID|unsupported HIP gpu|unknown target CPU|cannot find ROCm device library"
)
"""Clang's messages for an architecture that is newer than it or its device library."""


def compile_hip(text: str, symbols: Iterable[str], target: GpuTarget) -> bytes:
    """An object file with a code object for each architecture and, by `GPU_EXPORT`, its kernels.

    Raises KernelError with the compiler's log, or with a remedy for an architecture that the
    compiler does not know.
    """
    exports = "".join(f"GPU_EXPORT({symbol})\n" for symbol in symbols)
    whole = f'#include "flowloom/kernel.h"\n{text}\n{exports}'
    read = with_headers(whole, _headers())
    inputs = (hip_generator(), str(FLAGS), str(target.architectures), read)
    return compiled_once(lambda: _object(whole, target), (_object,), *inputs)


@cache
def _headers() -> dict[str, str]:
    """The headers that kernels include, by file name; HIP's take the place of CUDA's."""
    folder = FILES / "kernels" / "hip"
    return {**headers(), **{path.name: path.read_text() for path in folder.glob("*.cuh")}}


def _object(text: str, target: GpuTarget) -> bytes:
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        build = Path(folder)
        (build / "kernel.hip").write_text(text)
        for name, body in _headers().items():
            (build / name).write_text(body)
        offload = [f"--offload-arch={name}" for name in target.architectures]
        include = [f"-I{FILES / 'include'}", f"-I{build}"]
        built = build / "kernel.o"
        ran = run_hip_compiler(*FLAGS, *offload, *include, "-o", built, build / "kernel.hip")
        if ran.returncode != 0:
            raise _failure(ran.stderr, target)
        return built.read_bytes()


def _failure(log: str, target: GpuTarget) -> KernelError:
    named = ",".join(target.architectures)
    complaint = next((line for line in log.splitlines() if UNKNOWN.search(line)), None)
    if complaint is None:
        return KernelError(f"the HIP compiler failed for {named}:\n{log[-4000:]}")
    return KernelError(
        f"the HIP compiler ({hip_version()}) cannot compile for {named}: {complaint}; choose"
        " other architectures with --arch, or name a newer HIP compiler in FLOWLOOM_HIPCC"
        " (docs/targets.md)"
    )
