"""Candidates of kernels as a portable file: texts, launches, buffers; needs no TVM, no xDSL."""

import hashlib
import json
import lzma
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from compiler.errors import ArtifactError
from compiler.schedule import Launch

MAGIC = b"flowloom-tuning-1\n"
PRESET = 3


@dataclass(frozen=True, slots=True)
class Buffer:
    """An operand or result: its type, its shape before packing, and how it is packed."""

    dtype: str
    shape: tuple[int, ...]
    packing: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tile of a kernel: its CUDA text, its launches and the bytes of its workspaces."""

    tile: tuple[int, ...]
    text: str
    launches: tuple[Launch, ...]
    scratch: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A problem's candidates, the one to compare with first, and the work it stands for."""

    key: str
    name: str
    weight: float
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Kernels for one architecture, with the headers that their texts include."""

    arch: str
    compiler_arch: str
    version: str
    headers: dict[str, str]
    kernels: tuple[Kernel, ...]

    def in_turns(self, turn: int = 8) -> Iterator[tuple[Kernel, Candidate]]:
        """Every kernel's first candidates, the heaviest kernel's first; then the next ones."""
        heavy = sorted(self.kernels, key=lambda kernel: -kernel.weight)
        most = max((len(kernel.candidates) for kernel in heavy), default=0)
        for start in range(0, most, turn):
            for kernel in heavy:
                for candidate in kernel.candidates[start : start + turn]:
                    yield kernel, candidate


def joined(bundles: Sequence[Bundle]) -> Bundle:
    """One bundle of several; raises ArtifactError for those of other templates or targets."""
    first, kernels = bundles[0], dict[str, Kernel]()
    for each in bundles:
        if (each.arch, each.version) != (first.arch, first.version):
            raise ArtifactError("bundles of several architectures or versions: prepare them anew")
        for kernel in each.kernels:
            old = kernels.get(kernel.key)
            weight = kernel.weight + (old.weight if old else 0.0)
            kernels[kernel.key] = replace(old or kernel, weight=weight)
    return replace(first, kernels=tuple(kernels.values()))


def save(bundle: Bundle, path: str | os.PathLike[str]) -> None:
    """Write a bundle, compressed and with a checksum, in place of an older one once complete."""
    packed = lzma.compress(json.dumps(asdict(bundle)).encode(), preset=PRESET)
    temporary = Path(f"{os.fspath(path)}.tmp")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_bytes(MAGIC + hashlib.sha256(packed).digest() + packed)
    os.replace(temporary, path)


def load(path: str | os.PathLike[str]) -> Bundle:
    """Read a bundle; raises ArtifactError if it is damaged or of another format."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read the bundle {path}: {error.strerror}") from error
    start = len(MAGIC) + 32
    if content[:start] != MAGIC + hashlib.sha256(content[start:]).digest():
        raise ArtifactError(f"{path} is damaged or no bundle of this version: prepare it again")
    return _bundle(json.loads(lzma.decompress(content[start:])))


def _bundle(data: dict[str, Any]) -> Bundle:
    kernels = tuple(_kernel(each) for each in data.pop("kernels"))
    return Bundle(kernels=kernels, **data)


def _kernel(data: dict[str, Any]) -> Kernel:
    reads, writes = (
        tuple(Buffer(b["dtype"], tuple(b["shape"]), b["packing"]) for b in data.pop(kind))
        for kind in ("reads", "writes")
    )
    candidates = tuple(_candidate(each) for each in data.pop("candidates"))
    return Kernel(reads=reads, writes=writes, candidates=candidates, **data)


def _candidate(data: dict[str, Any]) -> Candidate:
    launches = tuple(_launch(each) for each in data["launches"])
    return Candidate(tuple(data["tile"]), data["text"], launches, tuple(data["scratch"]))


def _launch(data: dict[str, Any]) -> Launch:
    for name in ("args", "grid", "block"):
        data[name] = tuple(data[name])
    return Launch(**data)
