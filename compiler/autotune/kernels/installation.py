"""The versions that decide candidates and times, which are to be the same on every node."""

import hashlib
import socket
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from compiler.errors import ClusterError
from compiler.target.nvrtc import nvrtc_version

PACKAGE = Path(__file__).parents[2]

CONTENT = ("py", "cuh", "jsonl")
"""The kinds of files that decide: code, kernels' headers, measured configs."""

GENERATORS = ("apache-tvm", "apache-tvm-ffi", "xdsl")
"""The packages that write candidates with this one; what measures needs none of them."""


@dataclass(frozen=True)
class Installation:
    """This package by the hash of its content, NVRTC, and the packages that write candidates."""

    content: str
    nvrtc: str
    generators: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join((f"flowloom of content {self.content}", self.nvrtc, *self.generators))


@cache
def installed(generators: bool) -> Installation:
    """The versions of this machine, with or without those of the packages that write candidates."""
    digest = hashlib.sha256()
    for path in sorted(path for kind in CONTENT for path in PACKAGE.rglob(f"*.{kind}")):
        digest.update(f"{path.relative_to(PACKAGE)}\n".encode() + path.read_bytes())
    versions = tuple(f"{name} {metadata.version(name)}" for name in GENERATORS if generators)
    return Installation(digest.hexdigest()[:12], f"NVRTC: {nvrtc_version()}", versions)


def check_installed(expected: Installation) -> None:
    """Raise ClusterError where this machine has something else than the one that asks."""
    if (present := installed(bool(expected.generators))) != expected:
        raise ClusterError(
            f"{socket.gethostname()} has {present}; what asks has {expected}: install the same"
            " versions on every node, with pip install 'flowloom[cuda,ray]'"
        )
