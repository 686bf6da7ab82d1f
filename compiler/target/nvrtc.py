"""CUDA C++ to a cubin, by NVRTC through cuda-bindings; needs no GPU, and nothing else of us."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from compiler.errors import KernelError

NO_NVRTC = "there is no NVRTC: install it with `pip install flowloom[cuda]`"
NO_HEADERS: Mapping[str, str] = {}


@cache
def load_nvrtc() -> Any:
    """The NVRTC binding, or None when it or its library is not installed."""
    try:
        nvrtc: Any = import_module("cuda.bindings.nvrtc")
        # the binding can be imported without the library, and fails at its first call
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError):
        return None
    return nvrtc


def nvrtc_version() -> str:
    """The compiler with its version, such as `nvrtc 13.0`; `none` where it is not installed."""
    nvrtc = load_nvrtc()
    if nvrtc is None:
        return "none"
    _, major, minor = nvrtc.nvrtcVersion()
    return f"nvrtc {major}.{minor}"


def nvrtc_architectures() -> tuple[str, ...]:
    """The architectures that the compiler knows, such as sm_90; none where it is not installed."""
    nvrtc = load_nvrtc()
    if nvrtc is None:
        return ()
    numbers: Sequence[int] = _checked(nvrtc.nvrtcGetSupportedArchs())
    return tuple(f"sm_{number}" for number in numbers)


def compile_cuda(text: str, arch: str, headers: Mapping[str, str] = NO_HEADERS) -> bytes:
    """The cubin of a text for an architecture; `headers` are what it may include, by file name.

    Raises KernelError with the compiler's log, or when there is no NVRTC.
    """
    nvrtc = load_nvrtc()
    if nvrtc is None:
        raise KernelError(NO_NVRTC)
    bodies = [x.encode() for x in headers.values()]
    names = [x.encode() for x in headers]
    create = nvrtc.nvrtcCreateProgram
    program = _checked(create(text.encode(), b"kernel.cu", len(names), bodies, names))
    try:
        options = compile_options(arch)
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(status) != 0:
            log = bytearray(_checked(nvrtc.nvrtcGetProgramLogSize(program)))
            nvrtc.nvrtcGetProgramLog(program, log)
            log_text = log.decode(errors="replace").rstrip("\0")
            raise KernelError(f"the CUDA compiler failed for {arch} ({status.name}):\n{log_text}")
        cubin = bytearray(_checked(nvrtc.nvrtcGetCUBINSize(program)))
        _checked(nvrtc.nvrtcGetCUBIN(program, cubin))
        return bytes(cubin)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def compile_options(arch: str) -> list[bytes]:
    """The compiler's options; NVRTC 13.0 takes a lambda within a template for a host function."""
    always = (b"--std=c++17", b"--disable-warnings", b"--device-as-default-execution-space")
    return [f"--gpu-architecture={arch}".encode(), *always]


def _checked(answer: Sequence[Any]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise KernelError(f"NVRTC failed: {status.name}")
    return values[0] if values else None
