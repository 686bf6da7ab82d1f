"""The HIP compiler: its command, its version, and running it."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

from compiler.errors import KernelError

FILES = Path(str(resources.files("compiler"))) / "artifact" / "project"
"""The folder of the headers of kernels for HIP: those of exported projects."""


@cache
def hip_compiler() -> tuple[str, ...]:
    """The command of the HIP compiler: FLOWLOOM_HIPCC, or hipcc; KernelError without one."""
    chosen = os.environ.get("FLOWLOOM_HIPCC", "hipcc").split()
    if not chosen or shutil.which(chosen[0]) is None:
        raise KernelError(
            f"the target 'hip' needs a HIP compiler and there is no {' '.join(chosen[:1])} on the"
            " PATH: install hipcc (Debian: apt-get install hipcc), or name one in FLOWLOOM_HIPCC"
        )
    return tuple(chosen)


def run_hip_compiler(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the HIP compiler, for AMD also where CUDA is installed too."""
    # Clang never removes the folders that it makes for temporary files.
    with tempfile.TemporaryDirectory(prefix="flowloom-") as scratch:
        return subprocess.run(
            [*hip_compiler(), *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, "HIP_PLATFORM": "amd", "TMPDIR": scratch},
            check=False,
        )


@cache
def hip_version() -> str:
    """The compiler's versions, such as `HIP version: 5.2.21153-0, Debian clang version 15.0.6`."""
    lines = run_hip_compiler("--version").stdout.splitlines()
    return ", ".join(line for line in lines if "version" in line) or "unknown"


@cache
def hip_generator() -> str:
    """A hash of what an object depends on besides the kernel's text: compiler and headers."""
    digest = hashlib.sha256(" ".join([*hip_compiler(), hip_version()]).encode())
    for path in sorted([*FILES.glob("include/**/*.h"), *FILES.glob("kernels/hip/*")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
