"""Versions that measured times belong to: those of a template's code and of the compiler."""

import hashlib
import re
from functools import cache
from importlib import metadata
from pathlib import Path

ROOM = Path(__file__).parent


@cache
def code_hash(sources: tuple[str, ...]) -> str:
    """A hash of the code of files, white space and comments of CUDA left out.

    A source is a pattern such as `gemm.cuh` or `cpu/**/*.py`, in any folder of this room.
    """
    code: list[list[str]] = []
    for source in sources:
        paths = sorted(ROOM.glob(f"**/{source}"))
        assert paths, f"no file of compiler/kernels is called {source}"
        for path in paths:
            text = path.read_text(encoding="utf-8")
            code.append((re.sub(r"//.*", "", text) if path.suffix == ".cuh" else text).split())
    return hashlib.sha256(repr(code).encode()).hexdigest()[:12]


@cache
def llvm_version() -> str:
    """The package that compiles CPUs' kernels."""
    return f"llvmlite {metadata.version('llvmlite')}"
