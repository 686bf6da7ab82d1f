"""Compiled modules are kept whole: to compile a model again is to read its module.

A module is found by its model's content, the arguments, the package's code with the versions of
what it uses, and the CPU with what was measured on it. It is kept where nothing else decides it:
for a CPU, without files for or of a compilation, users' passes or operators, or a budget.
"""

import hashlib
import json
import mmap
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

from compiler.artifact import artifact
from compiler.artifact.manifest import trust_all
from compiler.artifact.module import Module, load_placed
from compiler.artifact.weights import in_one_block
from compiler.errors import ArtifactError, FlowloomError
from compiler.kernels import database
from compiler.kernels.cpu.host import database_name, host_cpu
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.library.files import checksums
from compiler.support.caches import (
    cache_directory,
    check_regular,
    package_version,
    read_regular,
    write_whole,
)
from compiler.support.family import started_early
from compiler.target.target import parse_target

KEEPING = "FLOWLOOM_KEEP"
"""The environment variable that keeps no modules if it is `off`."""

MODULE, SERVE = "compiler.kernels.building.workers", "serve"
"""The module and the function of the processes that build kernels."""

COMPILATION = "compiler.tools.api.compilation"
"""The module that is imported where something is compiled."""

REGISTRATION = "compiler.net.operators.registration"
"""The module that knows the operators of the user."""

MOST_WORKERS = 16
"""The most processes that are started before it is known how many kernels there are to build."""

FOLDER = "models"
DIGEST = re.compile(rb"[0-9a-f]{64}")
"""The digest of a model in its record: part of a path, so nothing else is taken."""

MOST_WEIGHT_BYTES = 1 << 30
"""The most bytes of weights of a module that is kept."""

LIMIT = 4 << 30
"""The bytes of all modules, beyond which those used least recently go."""

SETTLED_SECONDS = 2.0
"""A file whose times are older than this cannot change again without another time."""

UNKEPT = ("dump_ir", "budget", "profile", "schedule", "passes", "check")
"""The arguments with which a module is not kept: files, measurements, code of the user."""

PASSING = ("model", "threads", "cache", "progress", *UNKEPT)
"""The arguments that do not decide what a kept module is."""

DEPENDENCIES = ("apache-tvm", "apache-tvm-ffi", "llvmlite", "numpy", "onnx", "xdsl", "ml_dtypes")
EXTERNAL = b"\x0a\x08location"
"""The key of the path of a file with tensors in a model's protobuf; the path is before or after."""

PROTOBUFS = (".onnx", ".pb", "")
"""The suffixes of files that are protobufs. Models in other forms, as text, are not kept: that they
name no other files is not seen."""


def compiled_or_kept(arguments: Mapping[str, Any]) -> Any:
    """The module or program of `compiler.compile`, whose checked arguments these are."""
    request = KeptModule.of(arguments)
    module = None if request is None else request.load(arguments["threads"])
    if module is not None:
        return module
    with _workers_ahead(arguments["target"]):
        from compiler.tools.api.compilation import compiled

        return compiled(**arguments, keep=forget if request is None else request.keep)


def forget(module: Module, warned: bool) -> None:
    """Keep nothing."""


def _workers_ahead(target: str) -> AbstractContextManager[None]:
    """The processes that build a CPU's kernels import TVM while this one imports the rest.

    Not where this one has compiled before: it then imports TVM once, for many small models.
    """
    if not _is_for_cpu(target) or COMPILATION in sys.modules:
        return nullcontext()
    return started_early(MODULE, SERVE, min(MOST_WORKERS, len(os.sched_getaffinity(0))))


def _has_users_operators() -> bool:
    """Whether the user has operators: only what registers them imports the table of all others."""
    registration = sys.modules.get(REGISTRATION)
    return registration is not None and bool(registration.REGISTERED)


def _is_for_cpu(target: str) -> bool:
    """Whether a target is a CPU; compiling says what is wrong with one that is not known."""
    with suppress(FlowloomError):
        return parse_target(target).backend == "cpu"
    return False


@dataclass(frozen=True)
class KeptModule:
    """The place of a module that may be kept: those of one size and with the same options."""

    model: Any
    folder: Path
    identity: str
    """The name and the state of the model's file; empty for a model in memory."""
    fresh: str | None
    """The digest of a file that may change again without another time."""

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> "KeptModule | None":
        """The place for the arguments of a compilation; None if it would not be kept."""
        root = cache_directory(FOLDER)
        unkept = any(arguments[name] for name in UNKEPT) or not arguments["cache"]
        if root is None or unkept or _has_users_operators() or not _is_for_cpu(arguments["target"]):
            return None
        if os.environ.get(KEEPING, "on") == "off":
            return None
        model = arguments["model"]
        identity = ""
        size = 0
        fresh = None
        suffix = ""
        try:
            if isinstance(model, bytes) or hasattr(model, "SerializeToString"):
                content = _content(model)
                if content is None:
                    return None
                size = len(content)
            else:
                path = Path(model)
                if path.suffix not in PROTOBUFS:
                    return None
                identity, size = _identity(path)
                fresh = None if _is_settled(path) else _digest_of_file(path)
                suffix = path.suffix
        except (OSError, ValueError):
            return None  # compiling says what is wrong with the file
        chosen = {name: value for name, value in arguments.items() if name not in PASSING}
        text = json.dumps([chosen, size, suffix, *_circumstances()], sort_keys=True, default=str)
        folder = root / hashlib.sha256(text.encode()).hexdigest()[:32]
        return cls(model, folder, identity, fresh)

    def load(self, threads: int | None) -> Module | None:
        """The module, if it is kept and undamaged and runs here."""
        start = time.perf_counter()
        digest = None
        if self.folder.is_dir():
            with suppress(OSError, ValueError):  # compiling says what is wrong with the file
                digest = self._digest()
        directory = self.folder / (digest or "none")
        if not directory.is_dir():
            return None
        options = {} if threads is None else {"threads": threads}
        try:
            module = load_placed(directory, in_one_block, options, trust_all)
        except FlowloomError:
            shutil.rmtree(directory, ignore_errors=True)
            return None
        with suppress(OSError):
            os.utime(directory)  # the time of its last use
        module.build_seconds["read"] = time.perf_counter() - start
        return module

    def keep(self, module: Module, warned: bool) -> None:
        """Write a module in a thread that the process waits for when it ends.

        A module whose compilation `warned` of a node is not kept: that would not be said again.
        """
        if warned or sum(w.nbytes for w in module.weights.values()) > MOST_WEIGHT_BYTES:
            return
        content = b"" if self.identity else _content(self.model)
        if content is not None:
            Thread(target=self._write, args=(module.content, content)).start()

    def _write(self, content: artifact.Artifact, model: bytes) -> None:
        """Write an artifact, unless the model's file changed meanwhile."""
        with suppress(ArtifactError, OSError, ValueError):  # the kernel cache warns of its folder
            digest = self._digest_now() if self.identity else _digest(model)
            if digest is None or self.fresh not in (None, digest):
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            # a module that a crash loses is compiled again, so nothing waits for the disk
            artifact.save(content, self.folder / digest, durable=False)
            if self.identity and self.fresh is None:
                write_whole(self._record, digest.encode())
            remove_modules(LIMIT)

    @property
    def _record(self) -> Path:
        """The file with the digest of a model's file in this state."""
        return self.folder / f"{hashlib.sha256(self.identity.encode()).hexdigest()[:32]}.digest"

    def _digest(self) -> str | None:
        """The SHA-256 of the model; None if it is not all in one file."""
        if not self.identity:
            content = _content(self.model)
            return None if content is None else _digest(content)
        with suppress(OSError):
            recorded = read_regular(self._record)
            if DIGEST.fullmatch(recorded):
                return recorded.decode()
        digest = self.fresh or self._digest_now()
        if digest is not None and self.fresh is None:
            with suppress(OSError):
                write_whole(self._record, digest.encode())
        return digest

    def _digest_now(self) -> str | None:
        """The SHA-256 of the model's file, if it is as it was when it was asked for."""
        path = Path(self.model)
        digest = _digest_of_file(path)
        return digest if _identity(path)[0] == self.identity else None


def _identity(path: Path) -> tuple[str, int]:
    """The name and the state of a file, and its size: a change alters a time that no tool sets."""
    stat = path.stat()
    state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return f"{path.absolute()} {state}", stat.st_size


def _is_settled(path: Path) -> bool:
    stat = path.stat()
    return time.time() - max(stat.st_mtime, stat.st_ctime) > SETTLED_SECONDS


def _digest_of_file(path: Path) -> str | None:
    check_regular(path)
    with path.open("rb") as file:
        return _digest(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _content(model: Any) -> bytes | None:
    """The bytes of a model in memory; None for one of more than a protobuf can have."""
    if isinstance(model, bytes):
        return model
    from google.protobuf.message import EncodeError

    try:
        return model.SerializeToString(deterministic=True)
    except EncodeError:
        return None


def _digest(content: bytes | mmap.mmap) -> str | None:
    """The SHA-256 of a model; None for one that names other files."""
    return None if content.find(EXTERNAL) >= 0 else hashlib.sha256(content).hexdigest()


def _circumstances() -> Iterator[str]:
    """The versions, the CPU and the settings that decide a module with its arguments."""
    yield _code()
    yield host_cpu(host_target())
    yield database.database_hash(database_name(host_target()))
    yield from checksums()
    ours = ((name, value) for name, value in os.environ.items() if name.startswith("FLOWLOOM_"))
    yield from (f"{name}={value}" for name, value in sorted(ours) if name != "FLOWLOOM_CACHE")


@cache
def _code() -> str:
    """A hash of the package's source and of the versions of what it uses."""
    digest = hashlib.sha256()
    # pathlib takes three times as long for a thousand files
    for folder, inner, names in os.walk(Path(__file__).parents[2]):
        inner.sort()
        for name in sorted(names):
            if name.endswith((".py", ".c", ".ll")):
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(file.read())
    for name in DEPENDENCIES:
        digest.update(f"{name} {package_version(name)}\n".encode())
    return digest.hexdigest()


def kept_modules() -> list[tuple[float, int, Path]]:
    """The time of the last use, the bytes and the directory of each module that is kept."""
    root = cache_directory(FOLDER)
    used: list[tuple[float, int, Path]] = []
    for directory in root.glob("*/*/") if root is not None else ():
        with suppress(OSError):
            size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
            used.append((directory.stat().st_mtime, size, directory))
    return sorted(used)


def remove_modules(limit: int) -> None:
    """Remove the modules used least recently until the others take no more than a limit."""
    used = kept_modules()
    excess = sum(size for _, size, _ in used) - limit
    for _, size, directory in used:
        if excess <= 0:
            return
        shutil.rmtree(directory, ignore_errors=True)
        excess -= size
