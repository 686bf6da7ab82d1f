"""CUDA C++ to a cubin, by NVRTC through cuda-bindings; works without a GPU."""

from functools import lru_cache
from importlib import import_module
from typing import Any


@lru_cache(maxsize=256)
def compile_cubin(source: str, architecture: str) -> bytes:
    """The cubin of a source text; the compiler's log is in the error."""
    nvrtc: Any = import_module("cuda.bindings.nvrtc")
    program = _check(nvrtc.nvrtcCreateProgram(source.encode(), b"case.cu", 0, [], []))
    options = [f"--gpu-architecture={architecture}".encode(), b"-std=c++17"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    if status:
        log = b" " * _check(nvrtc.nvrtcGetProgramLogSize(program))
        _check(nvrtc.nvrtcGetProgramLog(program, log))
        raise RuntimeError(f"NVRTC: {status.name}\n{log.decode()}")
    image = b" " * _check(nvrtc.nvrtcGetCUBINSize(program))
    _check(nvrtc.nvrtcGetCUBIN(program, image))
    _check(nvrtc.nvrtcDestroyProgram(program))
    return image


def _check(result: tuple[Any, ...]) -> Any:
    if result[0]:
        raise RuntimeError(f"NVRTC: {result[0].name}")
    return result[1] if len(result) > 1 else None
