"""The features that a host must have for the code that LLVM generates for a CPU target."""

from functools import partial
from typing import Any

from compiler.backends.cpu import features
from compiler.kernels.cpu.machine import features_of
from compiler.target.target import parse_cpu


def cpu_requirements(target: str) -> dict[str, Any]:
    """The requirements of a CPU target; LLVM is asked about a CPU whose features are not known."""
    return features.requirements(target, partial(features_of, parse_cpu(target)))
