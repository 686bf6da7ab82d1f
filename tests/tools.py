"""The programs that tests call, and the Debian packages that bring them.

`FLOWLOOM_REQUIRED_TOOLS`, a list of programs, makes the tests fail at once where one is missing,
so that a machine meant to run all of them skips none in silence.
"""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from compiler.target.nvrtc import load_nvrtc

PACKAGES = {
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "chromium": "chromium",
    "clang++": "clang",
    "cmake": "cmake",
    "g++": "g++",
    "hipcc": "hipcc",
    "llvm-objdump": "llvm",
    "mkdocs": "mkdocs-material of Python, by pip install '.[docs]'",
    "npm": "npm",
    "nvcc": "nvidia-cuda-toolkit (12.3 or newer)",
    "qemu-aarch64": "qemu-user",
    "nvrtc": "nvidia-cuda-nvrtc of Python, by pip install '.[cuda]'",
}


def find(program: str) -> str | None:
    """The path of a program; the newest of Debian's versions of clang++ where there is no other.

    NVRTC and MkDocs, which are libraries of Python's, are their names alone.
    """
    if program == "mkdocs":
        return program if find_spec("material") and find_spec("mkdocstrings") else None
    if program == "nvrtc":
        return program if load_nvrtc() is not None else None
    versions = sorted(Path("/usr/bin").glob(f"{program}-[0-9]*"), key=lambda path: path.name)
    return shutil.which(program) or (str(versions[-1]) if versions else None)


def missing(programs: list[str]) -> list[str]:
    """A line for each program that cannot be found."""
    return [f"{p}: install the package {PACKAGES.get(p, p)}" for p in programs if find(p) is None]


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test where one of the programs is missing, and says which package has it."""
    lacking = missing(list(programs))
    return pytest.mark.skipif(bool(lacking), reason="; ".join(lacking))


needs_nvrtc = needs("nvrtc")


def required() -> list[str]:
    """The programs that this machine must have."""
    return os.environ.get("FLOWLOOM_REQUIRED_TOOLS", "").split()
