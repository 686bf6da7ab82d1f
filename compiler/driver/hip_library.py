"""The shared library of a model compiled for AMD GPUs, and what a host needs to run it."""

from functools import partial
from pathlib import Path
from typing import Any

from compiler.artifact.artifact import Artifact
from compiler.artifact.library import build_library
from compiler.backends.hip.build import requirements_of
from compiler.kernels.gpu.compilers.hip_toolchain import (
    hip_generator,
    hip_version,
    run_hip_compiler,
)
from compiler.target.target import parse_gpu


def hip_library(artifact: Artifact, cache: Path | None) -> tuple[bytes, dict[str, Any]]:
    """The library of an artifact's kernels and schedule, and its requirements.

    Objects that all models share are kept in the directory `cache`, if any. Raises KernelError with
    the compiler's messages.
    """
    offload = [f"--offload-arch={arch}" for arch in parse_gpu(artifact.target).architectures]
    compiler = partial(run_hip_compiler, *offload)
    library = build_library(artifact, compiler, hip_generator(), cache and cache / "hip")
    return library, requirements_of(artifact.target, library, hip_version())
