"""The machine code of NVIDIA's GPUs as text, by CUDA's disassembler."""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

from compiler.errors import KernelError

NVDISASM_PACKAGE = "nvidia-cuda-nvdisasm"
"""The package that brings nvdisasm where the CUDA toolkit is not installed."""


def disassembler() -> str | None:
    """The path of nvdisasm, of CUDA's tools or of the package nvidia-cuda-nvdisasm."""
    spec = find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    in_packages = (str(path) for place in places for path in Path(place).glob("*/bin/nvdisasm"))
    return shutil.which("nvdisasm") or next(in_packages, None)


def sass_of(cubin: bytes) -> str:
    """The instructions of a cubin; raises KernelError without nvdisasm, or if it fails."""
    program = disassembler()
    if program is None:
        raise KernelError(f"SASS needs nvdisasm: pip install {NVDISASM_PACKAGE}")
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        ran = subprocess.run([program, "-c", file.name], capture_output=True, text=True)
    if ran.returncode:
        raise KernelError(f"nvdisasm cannot read a cubin: {ran.stderr.strip()}")
    return ran.stdout
