"""CUDA text to cubin: by NVRTC from its wheel, or by nvcc where that is missing."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

from compiler.errors import KernelError
from compiler.kernels.gpu.headers import headers
from compiler.support.caches import compiled_once, package_version, with_headers
from compiler.target.nvrtc import compile_cuda, compile_options, load_nvrtc, nvrtc_version
from compiler.target.target import GpuTarget

_MADE: dict[tuple[str, str], bytes] = {}
"""Cubins that are kept for the next one who asks, by architecture and text."""


def keep_cubins(target: GpuTarget, cubins: Mapping[str, bytes]) -> None:
    """Keep what was compiled already, by text, instead of what was kept before."""
    _MADE.clear()
    _MADE.update({(target.compiler_architecture, text): code for text, code in cubins.items()})


def compile_cubin(text: str, target: GpuTarget) -> bytes:
    """Compile CUDA text for an architecture; raises KernelError with the compiler's log.

    What was kept for this text is taken instead.
    """
    kept = _MADE.pop((target.compiler_architecture, text), None)
    if kept is not None:
        return kept
    nvcc = shutil.which("nvcc")
    if load_nvrtc() is not None:
        make = partial(compile_cuda, text, target.compiler_architecture, headers())
    elif nvcc is not None:
        make = partial(compile_by_nvcc, nvcc, text, target)
    else:
        raise KernelError(
            "there is no CUDA compiler: install NVRTC with `pip install flowloom[cuda]`,"
            " or put nvcc on the PATH"
        )
    whole = with_headers(text, headers())
    inputs = (_exact_version(), target.compiler_architecture, whole)
    return compiled_once(make, (compile_cuda, compile_options, compile_by_nvcc), *inputs)


@cache
def _exact_version() -> str:
    """The compiler's version with its build, which NVRTC says in its package alone."""
    return f"{compiler_version()} {package_version('nvidia-cuda-nvrtc')}"


@cache
def compiler_version() -> str:
    """The compiler that is used and its version, for cache keys and reports."""
    if load_nvrtc() is not None:
        return nvrtc_version()
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return "none"
    return subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout.split("\n")[
        -2
    ]


def compile_by_nvcc(nvcc: str, text: str, target: GpuTarget) -> bytes:
    """Compile with the nvcc command."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.cu", Path(folder) / "kernel.cubin"
        source.write_text(text)
        for name, body in headers().items():
            (Path(folder) / name).write_text(body)
        command = [nvcc, "-cubin", f"-arch={target.compiler_architecture}", "-std=c++17", "-w"]
        ran = subprocess.run([*command, "-o", cubin, source], capture_output=True, text=True)
        if ran.returncode != 0:
            raise KernelError(f"nvcc failed for {target.architecture}:\n{ran.stderr}")
        return cubin.read_bytes()


@cache
def check_compiler(target: GpuTarget) -> None:
    """Raise KernelError if NVRTC is there and too old, or too new, for an architecture."""
    nvrtc = load_nvrtc()
    if nvrtc is None:
        return
    _, known = nvrtc.nvrtcGetSupportedArchs()
    if target.capability not in known:
        raise KernelError(
            f"{compiler_version()} compiles for sm_{', sm_'.join(map(str, known))}, not for"
            f" {target.architecture}: get another by `pip install -U nvidia-cuda-nvrtc`"
        )
