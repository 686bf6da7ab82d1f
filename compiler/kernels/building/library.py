"""Reading and writing libraries: kernels for where the cache has none, which need no TVM.

A library is the entries of a kernel cache for one target in a file that nothing writes to.
It serves the source that built it, where the user has measured no configs.
"""

import hashlib
import json
import mmap
import warnings
import zlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from compiler.errors import ArtifactError
from compiler.kernels.building.cache import (
    decode_entry,
    entry_name,
    has_users_lowering,
    source_version,
    tuning_of,
)
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.group import Group
from compiler.kernels.library.files import LIBRARY_MAGIC, library_files
from compiler.schedule.kernels import KernelSpec
from compiler.support.caches import CHECKSUM, check_regular, write_whole
from compiler.target.target import CpuTarget, Target, parse_cpu, parse_target

KEY_BYTES = 32
"""The bytes of an entry's name: a SHA-256."""

VERSION = "library"
"""The version in the names of entries: that of the source is in the origin."""

INDEX_BYTES = KEY_BYTES + 16
"""The bytes of an entry in the index: its name, and where its content begins and ends."""

WIDER = frozenset({"avx512f"})
"""Features with which all kernels differ: a library without them does not serve a CPU with them."""

OF_NARROW_NUMBERS = frozenset(
    {"avx512vnni", "avxvnni", "avx512bf16", "avxneconvert", "dotprod", "i8mm", "bf16", "fullfp16"}
)
"""Features with which kernels of numbers of 8 and 16 bits differ."""

NARROW = frozenset({"int8", "uint8", "float16", "bfloat16"})


@dataclass(frozen=True)
class Origin:
    """The target of the kernels of a library, and the source and packages that built them."""

    target: str
    built: str
    """The target with what else decides its kernels, as entries of the cache have it."""
    features: tuple[str, ...]
    """The features, by LLVM's names, that a CPU must have to run them."""
    tuning: str
    """The hash of the measured configs that were known."""
    version: str
    """The hash of the source that decides kernels."""
    generators: str
    """The versions of the packages that generate code, to be read by people."""


class KernelLibrary:
    """The kernels of a file; raises OSError or ValueError where it is damaged, or no library."""

    def __init__(self, path: Path):
        check_regular(path)
        self.path = path
        with path.open("rb") as file:
            self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        start = len(LIBRARY_MAGIC) + CHECKSUM
        end = start + 8 + int.from_bytes(self._content[start : start + 8], "little")
        head = self._content[start:end]
        if self._content[:start] != LIBRARY_MAGIC + hashlib.sha256(head).digest():
            raise ValueError("it is damaged, or not a library")
        origin, _, self._index = head[8:].partition(b"\n")
        fields = json.loads(origin)
        self.origin = Origin(features=tuple(fields.pop("features")), **fields)
        self.digest = hashlib.sha256(head).hexdigest()

    def __len__(self) -> int:
        return len(self._index) // INDEX_BYTES

    @property
    def is_current(self) -> bool:
        """Whether it was built by this source: what another decides may be other kernels."""
        return self.origin.version == source_version()

    def serves(self, target: Target) -> bool:
        """Whether its kernels are what is built for a target, or run on that CPU as fast."""
        if self.origin.tuning != tuning_of(target):
            return False
        if self.origin.target == str(target):
            return True
        own = parse_target(self.origin.target)
        if (own.backend, target.backend) != ("cpu", "cpu") or own.precision != target.precision:
            return False
        cpu, host = parse_cpu(str(target)), host_target()
        if (cpu.mcpu, cpu.features) != (host.mcpu, host.features):
            return False  # of a CPU by name LLVM alone knows what it has
        has = _features(cpu)
        return has.issuperset(self.origin.features) and not self._lacks(has) & WIDER

    def load(self, group: Group, target: Target) -> KernelSpec | None:
        """The kernel of a group for a target that it serves, or None.

        A damaged kernel is warned of and counts as absent.
        """
        if has_users_lowering(group) or self._is_slower_for(group, target):
            return None
        name = bytes.fromhex(entry_name(group.content_hash(), self.origin.built, VERSION))
        number = bisect_left(range(len(self)), name, key=self._name)
        if number == len(self) or self._name(number) != name:
            return None
        record = self._record(number)
        begin = int.from_bytes(record[KEY_BYTES:-8], "little")
        end = int.from_bytes(record[-8:], "little")
        try:
            spec = decode_entry(zlib.decompress(self._content[begin:end]))
        except zlib.error:
            spec = None
        if spec is None:
            warnings.warn(
                f"the library {self.path} is damaged: building the kernel {group.name}",
                stacklevel=3,
            )
        return spec

    def _is_slower_for(self, group: Group, target: Target) -> bool:
        """Whether a CPU has instructions for a group's numbers that the library's code has not."""
        if self.origin.target == str(target):
            return False
        lacks = self._lacks(_features(parse_cpu(str(target)))) & OF_NARROW_NUMBERS
        return bool(lacks) and any(info.dtype in NARROW for info in group.values)

    def _lacks(self, has: frozenset[str]) -> frozenset[str]:
        """The features of a CPU that its code does without."""
        return has.difference(self.origin.features)

    def _record(self, number: int) -> bytes:
        return self._index[number * INDEX_BYTES : (number + 1) * INDEX_BYTES]

    def _name(self, number: int) -> bytes:
        return self._record(number)[:KEY_BYTES]


def _features(target: CpuTarget) -> frozenset[str]:
    return frozenset(name[1:] for name in target.feature_names if name.startswith("+"))


def write_library(path: Path, origin: Origin, entries: Iterable[Path]) -> None:
    """Write a library of the files of a cache, whose names are entries'; raises OSError."""
    packed = {bytes.fromhex(p.stem): zlib.compress(p.read_bytes(), 9) for p in entries}
    names = sorted(packed)
    opening = json.dumps(asdict(origin)).encode() + b"\n"
    head_bytes = len(opening) + len(names) * INDEX_BYTES
    position = len(LIBRARY_MAGIC) + CHECKSUM + 8 + head_bytes
    index = bytearray()
    for name in names:
        index += name + position.to_bytes(8, "little")
        position += len(packed[name])
        index += position.to_bytes(8, "little")
    head = head_bytes.to_bytes(8, "little") + opening + index
    content = (packed[name] for name in names)
    write_whole(path, LIBRARY_MAGIC + hashlib.sha256(head).digest() + head + b"".join(content))


def opened(path: Path) -> KernelLibrary:
    """A library; raises ArtifactError, with the remedy, where it is damaged or outdated."""
    try:
        library = KernelLibrary(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(
            f"the library {path} cannot be read ({error}): install Flowloom again"
        ) from error
    if not library.is_current:
        raise ArtifactError(
            f"the library {path} was built by other source than this:"
            " build it again (flowloom library build), or remove it"
        )
    return library


@cache
def _libraries(files: tuple[Path, ...]) -> tuple[KernelLibrary, ...]:
    """The libraries that can be used; warns once of the others."""
    libraries: list[KernelLibrary] = []
    for path in files:
        try:
            libraries.append(opened(path))
        except ArtifactError as error:
            warnings.warn(f"{error}; kernels are built instead", stacklevel=2)
    return tuple(libraries)


def serving(target: Target) -> list[KernelLibrary]:
    """The libraries with kernels for a target: its own, then those of more features first."""

    def rank(library: KernelLibrary) -> tuple[bool, int]:
        return library.origin.target != str(target), -len(library.origin.features)

    libraries = _libraries(tuple(library_files()))
    return sorted((own for own in libraries if own.serves(target)), key=rank)
