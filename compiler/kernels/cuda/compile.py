"""CUDA text to cubin: by NVRTC from its wheel, or by nvcc where that is missing."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from compiler.errors import KernelError
from compiler.kernels.cuda.source import headers
from compiler.kernels.cuda.target import CudaTarget


def compile_cubin(text: str, target: CudaTarget) -> bytes:
    """Compile CUDA text for an architecture; raises KernelError with the compiler's log."""
    nvrtc = load_nvrtc()
    if nvrtc is not None:
        return _by_nvrtc(nvrtc, text, target)
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise KernelError(
            "there is no CUDA compiler: install NVRTC with `pip install flowloom[cuda]`,"
            " or put nvcc on the PATH"
        )
    return compile_by_nvcc(nvcc, text, target)


@cache
def load_nvrtc() -> Any:
    """The NVRTC binding, or None when it or its library is not installed."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError):
        return None
    return nvrtc


@cache
def compiler_version() -> str:
    """The compiler that is used and its version, for cache keys and reports."""
    nvrtc = load_nvrtc()
    if nvrtc is not None:
        _, major, minor = nvrtc.nvrtcVersion()
        return f"nvrtc {major}.{minor}"
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return "none"
    return subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout.split("\n")[
        -2
    ]


def _by_nvrtc(nvrtc: Any, text: str, target: CudaTarget) -> bytes:
    texts = headers()
    options = [f"--gpu-architecture={target.compiler_arch}", "--std=c++17", "--disable-warnings"]
    create = nvrtc.nvrtcCreateProgram
    bodies = [body.encode() for body in texts.values()]
    names = [name.encode() for name in texts]
    program = _checked(create(text.encode(), b"kernel.cu", len(texts), bodies, names))
    try:
        encoded = [option.encode() for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = bytearray(_checked(nvrtc.nvrtcGetProgramLogSize(program)))
            nvrtc.nvrtcGetProgramLog(program, log)
            raise KernelError(
                f"the CUDA compiler failed for {target.arch} ({status.name}):\n"
                + log.decode(errors="replace").rstrip("\0")
            )
        cubin = bytearray(_checked(nvrtc.nvrtcGetCUBINSize(program)))
        _checked(nvrtc.nvrtcGetCUBIN(program, cubin))
        return bytes(cubin)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _checked(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise KernelError(f"NVRTC failed: {status.name}")
    return values[0] if values else None


def compile_by_nvcc(nvcc: str, text: str, target: CudaTarget) -> bytes:
    """Compile with the nvcc command."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.cu", Path(folder) / "kernel.cubin"
        source.write_text(text)
        for name, body in headers().items():
            (Path(folder) / name).write_text(body)
        command = [nvcc, "-cubin", f"-arch={target.compiler_arch}", "-std=c++17", "-w"]
        ran = subprocess.run([*command, "-o", cubin, source], capture_output=True, text=True)
        if ran.returncode != 0:
            raise KernelError(f"nvcc failed for {target.arch}:\n{ran.stderr}")
        return cubin.read_bytes()


@cache
def check_compiler(target: CudaTarget) -> None:
    """Raise KernelError if NVRTC is there and too old, or too new, for an architecture."""
    nvrtc = load_nvrtc()
    if nvrtc is None:
        return
    _, known = nvrtc.nvrtcGetSupportedArchs()
    if target.capability not in known:
        raise KernelError(
            f"{compiler_version()} compiles for sm_{', sm_'.join(map(str, known))}, not for"
            f" {target.arch}: get another by `pip install -U nvidia-cuda-nvrtc`"
        )
