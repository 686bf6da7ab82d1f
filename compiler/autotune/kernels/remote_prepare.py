"""`prepare` for another machine: an imported graph and a database in, a bundle out."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from compiler.autotune.kernels.bundle import Bundle
from compiler.autotune.kernels.installation import Installation, check_installed
from compiler.autotune.kernels.prepare import any_candidate, prepare_part, untuned_on
from compiler.ir.context import parse_module
from compiler.kernels.database import DATABASE_VARIABLE, user_file


@dataclass(frozen=True)
class PreparePart:
    """Prepares the candidates of an imported graph, which it has as text, for a target.

    `database` is the user's file on the machine that asks, None without one; what has times on a
    `device` is left out.
    """

    installation: Installation
    graph: str
    target: str
    arch: str
    count: int
    database: bytes | None
    device: str = ""

    def run(self) -> Bundle:
        """The candidates; ClusterError where this machine has other versions."""
        check_installed(self.installation)
        accepts = untuned_on(self.device) if self.device else any_candidate
        with using_database(self.arch, self.database):
            return prepare_part(parse_module(self.graph), self.target, self.count, accepts)


def database_content(arch: str) -> bytes | None:
    """The user's database of an architecture on this machine; None without one."""
    path = user_file(arch)
    return path.read_bytes() if path.is_file() else None


@contextmanager
def using_database(arch: str, content: bytes | None) -> Generator[None, None, None]:
    """Let a content be the user's database in the block, and no other."""
    previous = os.environ.get(DATABASE_VARIABLE)
    os.environ[DATABASE_VARIABLE] = _folder_with(arch, content).name
    try:
        yield
    finally:
        del os.environ[DATABASE_VARIABLE]
        if previous is not None:
            os.environ[DATABASE_VARIABLE] = previous


@cache
def _folder_with(arch: str, content: bytes | None) -> TemporaryDirectory[str]:
    """A folder with a database while the process lives, as reading one takes most of a second."""
    folder = TemporaryDirectory(prefix="flowloom-tuning-")
    if content is not None:
        Path(folder.name, f"{arch}.jsonl").write_bytes(content)
    return folder
