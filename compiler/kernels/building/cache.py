"""The kernel cache on disk: a checked file a kernel, safe under concurrent writers and crashes."""

import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from compiler.emulator.compile import version as emulator_version
from compiler.kernels.cpu.host import database_name
from compiler.kernels.database import database_hash
from compiler.kernels.group import Group
from compiler.net.operators.registration import REGISTERED
from compiler.schedule.kernels import Footprint, KernelSpec, Launch, Operand
from compiler.support.caches import (
    cache_directory,
    package_version,
    read_regular,
    remove_oldest,
    warn_without_cache,
    write_whole,
)
from compiler.target.target import Target, parse_cpu, parse_target
from compiler.tensors.extent_text import extent_from_text
from compiler.tensors.symbols import Symbol

MAGIC = b"flowloom-kernel-1\n"
SUFFIX = ".kernel"
TEXTS = ".mlir"
"""The suffix of graphs that a search decided on."""
TEXT_CHECKSUM = 64
"""The characters of the checksum before the text in such a file."""
DEFAULT_LIMIT = 4 << 30
"""Bytes that the cache may take before the entries used least recently are removed."""
STAMP = "trimmed"
"""The file that was written when the cache was last trimmed."""
DECIDING_ROOMS = (
    *("choice", "graph", "ir", "net", "rewrite", "schedule", "support", "target", "tensors"),
)
"""The rooms besides `kernels` whose source decides what a kernel is."""
CODE_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "llvmlite", "nvidia-cuda-nvrtc")
"""The packages that generate code."""
TRIM_SECONDS = 3600
"""The time between two trimmings: a large cache has 100,000 entries, which take half a second."""


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """Entries and bytes of the cache, in all and by target."""

    directory: Path | None
    entries: int
    nbytes: int
    targets: dict[str, tuple[int, int]]


@cache
def source_version() -> str:
    """A hash of the source that decides kernels."""
    digest = hashlib.sha256()
    for path in deciding_sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def deciding_sources() -> list[Path]:
    """The files of kernels, of the rooms that they import, and of what is decided before them."""
    package = Path(__file__).parents[2]
    rooms = ("kernels", *DECIDING_ROOMS)
    sources = [path for room in rooms for path in package.glob(f"{room}/**/*.py")]
    return sorted([*sources, *package.glob("kernels/**/*.cuh")])


@cache
def generator_version() -> str:
    """A hash of the source that decides kernels and of the versions of what generates code."""
    digest = hashlib.sha256(f"{emulator_version()} {source_version()}\n".encode())
    for package in CODE_PACKAGES:
        digest.update(f"{package} {package_version(package)}\n".encode())
    return digest.hexdigest()


def has_users_lowering(group: Group) -> bool:
    """Whether a kernel is also of code that `source_version` does not see: it is never kept."""
    return any(op.type in REGISTERED for op in group.operators)


class KernelCache:
    """Compiled kernels in a directory, keyed by group, target and generator.

    A `version` stands for the generator in a cache that is carried to a machine without one.
    A directory that cannot be read or written is warned of once, and then left alone.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        limit: int = DEFAULT_LIMIT,
        version: str | None = None,
    ):
        self.directory = cache_directory("") if directory is None else Path(directory)
        self.limit = limit
        self._version = version
        self._failed = self.directory is None
        if self._failed:
            warn_without_cache("there is no home directory")

    def load(
        self, group: Group, target: str, compiler: str = "", config: str = ""
    ) -> KernelSpec | None:
        """The kernel of a group by target and compiler, or None.

        With a `config` the one that has it, else the one that was chosen by the present database.
        A damaged entry is warned of and counts as absent.
        """
        if self._failed or has_users_lowering(group):
            return None
        path = self._path(group, target, compiler, config)
        content = self._read(path)
        if content is None:
            return None
        spec = decode_entry(content)
        return _warn_of_damage(path, "it is damaged") if spec is None else spec

    def store(
        self, group: Group, target: str, spec: KernelSpec, compiler: str = "", config: str = ""
    ) -> None:
        """Keep a kernel: written next to its place, then moved there in one step."""
        if self._failed or has_users_lowering(group):
            return
        path = self._path(group, target, compiler, config)
        try:
            write_whole(path, encode_entry(spec))
        except OSError as error:
            self._fail("write", error)

    def load_text(self, key: str, target: str) -> str | None:
        """A text that was stored for a target by this version of the code, or None.

        A damaged entry is warned of and counts as absent.
        """
        if self._failed:
            return None
        path = self._place(key, target, target, TEXTS)
        content = self._read(path)
        if content is None:
            return None
        checksum, text = content[:TEXT_CHECKSUM], content[TEXT_CHECKSUM:]
        if checksum != hashlib.sha256(text).hexdigest().encode():
            return _warn_of_damage(path, "it is damaged")
        return text.decode(errors="replace")

    def store_text(self, key: str, target: str, text: str) -> None:
        """Keep what a search decided on."""
        if self._failed:
            return
        path = self._place(key, target, target, TEXTS)
        try:
            content = text.encode()
            write_whole(path, hashlib.sha256(content).hexdigest().encode() + content)
        except OSError as error:
            self._fail("write", error)

    def trim(self) -> None:
        """Remove the entries used least recently until the cache fits its limit."""
        try:
            remove_oldest((path for path, _ in self._entries()), self.limit)
        except OSError as error:
            self._fail("trim", error)

    def trim_hourly(self) -> None:
        """Trim, unless a process has begun to within an hour: every entry's size is asked for."""
        if self.directory is None or self._failed:
            return
        stamp = self.directory / STAMP
        with suppress(OSError):
            if 0 <= time.time() - stamp.stat().st_mtime < TRIM_SECONDS:
                return
        try:
            stamp.touch()
        except OSError as error:
            return self._fail("write", error)
        self.trim()

    def status(self) -> CacheStatus:
        """Count the entries and their bytes."""
        targets: dict[str, tuple[int, int]] = {}
        for path, stat in self._entries():
            count, size = targets.get(path.parent.name, (0, 0))
            targets[path.parent.name] = (count + 1, size + stat.st_size)
        counts = targets.values()
        return CacheStatus(
            self.directory, sum(c for c, _ in counts), sum(s for _, s in counts), targets
        )

    def clear(self) -> int:
        """Remove every entry and every leftover of a crash; return the number of entries."""
        removed = self.status().entries
        for path in (path for suffix in (SUFFIX, TEXTS, ".tmp") for path in self._files(suffix)):
            with suppress(OSError):  # it is not a file of ours
                path.unlink(missing_ok=True)
        return removed

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in [*self.kernels(), *self._files(TEXTS)]:
            try:
                yield path, path.stat()
            except OSError:
                continue

    def kernels(self) -> Iterator[Path]:
        """The files of kernels, by their `entry_name`."""
        return self._files(SUFFIX)

    def _files(self, suffix: str) -> Iterator[Path]:
        return self.directory.glob(f"*/*{suffix}") if self.directory is not None else iter(())

    def _path(self, group: Group, target: str, compiler: str, config: str) -> Path:
        built = built_for(target, compiler)
        return self._place(group.content_hash(), target, built, SUFFIX, config)

    def _place(self, key: str, target: str, built: str, suffix: str, config: str = "") -> Path:
        parsed = parse_target(target)
        mark = hashlib.sha256(built.encode()).hexdigest()[:8]
        folder = f"{parsed.backend}-{parsed.architecture}-{mark}"
        version = self._version or f"{generator_version()} {config or tuning_of(parsed)}"
        assert self.directory is not None
        return self.directory / folder / (entry_name(key, built, version) + suffix)

    def _read(self, path: Path) -> bytes | None:
        """The content of an entry, which is then the one used last, or None."""
        try:
            content = read_regular(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            if not isinstance(error, PermissionError) and path.exists():
                return _warn_of_damage(path, error.strerror or str(error))
            return self._fail("read", error)
        with suppress(OSError):
            os.utime(path)
        return content

    def _fail(self, action: str, error: OSError) -> None:
        self._failed = True
        warn_without_cache(
            f"cannot {action} the kernel cache {self.directory}: {error.strerror or error}"
        )


def built_for(target: str, compiler: str) -> str:
    """A target with what else decides its kernels, if anything does."""
    return f"{target} {compiler}".rstrip()


def entry_name(key: str, built: str, version: str) -> str:
    """The name of an entry: a SHA-256 of what it is, what it was built for, and the generator."""
    return hashlib.sha256(f"{key} {built} {version}".encode()).hexdigest()


def _warn_of_damage(path: Path, why: str) -> None:
    warnings.warn(
        f"the kernel cache entry {path} cannot be used ({why}): building it anew", stacklevel=3
    )


def tuning_of(target: Target) -> str:
    """The hash of the configs known for a GPU's architecture, or for this CPU."""
    if not target.is_gpu:
        name = database_name(parse_cpu(str(target)))
        return database_hash(name) if name else ""
    return database_hash(target.architecture)


def encode_entry(spec: KernelSpec) -> bytes:
    """The file of one kernel: a magic line, the checksum of the rest, then header and code."""
    fields: dict[str, Any] = asdict(spec)
    code: bytes = fields.pop("code")
    header = json.dumps(fields, default=str).encode()  # an extent over symbols is its text
    body = len(header).to_bytes(8, "little") + header + code
    return MAGIC + hashlib.sha256(body).digest() + body


def _launch(fields: dict[str, Any], symbols: Mapping[str, Symbol]) -> Launch:
    sequences = {name: tuple(fields.pop(name)) for name in ("args", "block")}
    return Launch(grid=_extents(fields.pop("grid"), symbols), **sequences, **fields)


def _extents(values: Iterable[int | str], symbols: Mapping[str, Symbol]) -> tuple[Any, ...]:
    return tuple(
        extent_from_text(value, symbols) if isinstance(value, str) else value for value in values
    )


def _footprint(fields: dict[str, Any]) -> Footprint:
    sequences = {name: tuple(fields.pop(name)) for name in ("read_launches", "undecided")}
    return Footprint(**sequences, **fields)


def decode_entry(content: bytes) -> KernelSpec | None:
    """The kernel of a cache file, or None when the file is damaged."""
    start = len(MAGIC) + 32
    body = content[start:]
    if content[:start] != MAGIC + hashlib.sha256(body).digest():
        return None
    end = 8 + int.from_bytes(body[:8], "little")
    fields: dict[str, Any] = json.loads(body[8:end])
    symbols = {own["name"]: Symbol(**own) for own in fields.pop("symbols")}
    launches = tuple(_launch(launch, symbols) for launch in fields.pop("launches"))
    operands = {
        kind: tuple(
            Operand(field["dtype"], _extents(field["shape"], symbols)) for field in fields.pop(kind)
        )
        for kind in ("reads", "writes")
    }
    return KernelSpec(
        code=body[end:],
        launches=launches,
        packings=tuple(fields.pop("packings")),
        workspaces=_extents(fields.pop("workspaces"), symbols),
        footprint=_footprint(fields.pop("footprint")),
        symbols=tuple(symbols.values()),
        **operands,
        **fields,
    )
