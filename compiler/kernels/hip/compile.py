"""CUDA text to a code object of an AMD GPU, by hipcc."""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

from compiler.errors import KernelError
from compiler.kernels.cuda.source import headers
from compiler.kernels.hip.target import HipTarget

FLAGS = (
    *("-x", "hip", "-c", "--cuda-device-only", "--no-gpu-bundle-output", "-std=c++17", "-O3"),
    *("-DFLOWLOOM_HIP", "-Wno-unused-command-line-argument"),
)


@cache
def hip_compiler() -> tuple[str, ...]:
    """The command of the HIP compiler: FLOWLOOM_HIPCC, or hipcc; KernelError without one."""
    chosen = os.environ.get("FLOWLOOM_HIPCC", "hipcc").split()
    if shutil.which(chosen[0]) is None:
        raise KernelError(
            f"the target 'hip' needs a HIP compiler and there is no {chosen[0]} on the PATH:"
            " install hipcc (Debian: apt-get install hipcc), or name one in FLOWLOOM_HIPCC"
        )
    return tuple(chosen)


def compile_code_object(text: str, target: HipTarget) -> bytes:
    """Compile CUDA text for an architecture; raises KernelError with the compiler's log."""
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        place = Path(folder)
        (place / "kernel.hip").write_text(f'#include "flowloom/kernel.h"\n{text}')
        for name, body in headers().items():
            (place / name).write_text(body)
        ran = subprocess.run(
            [*command(target, place), "-o", str(place / "code"), str(place / "kernel.hip")],
            capture_output=True,
            text=True,
            env={**os.environ, "HIP_PLATFORM": "amd"},
        )
        if ran.returncode != 0:
            raise KernelError(f"the HIP compiler failed for {target.arch}:\n{ran.stderr[:4000]}")
        return (place / "code").read_bytes()


def command(target: HipTarget, folder: Path) -> list[str]:
    """The compiler's command, where AMD's own headers stand in for those of `folder`."""
    project = Path(str(resources.files("compiler"))) / "export" / "project"
    for header in (project / "kernels" / "hip").glob("*.cuh"):
        shutil.copy(header, folder)
    return [
        *hip_compiler(),
        *FLAGS,
        f"--offload-arch={target.compiler_arch}",
        f"-I{project / 'include'}",
        f"-I{folder}",
    ]
