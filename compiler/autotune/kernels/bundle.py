"""Candidates of kernels as a portable file: texts, launches, buffers; needs no TVM, no xDSL."""

import hashlib
import json
import lzma
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from compiler.errors import ArtifactError
from compiler.kernels.database.fields import Config, as_config
from compiler.schedule.kernels import Launch
from compiler.support.caches import read_regular, write_whole
from compiler.verify.checked_json import checked_items, checked_record

MAGIC = b"flowloom-tuning-3\n"
PRESET = 3
FEWEST = 2
"""Candidates of a kernel that make a measurement worth while."""


@dataclass(frozen=True, slots=True)
class OperandBuffer:
    """An operand or result: its type, its shape before packing, and how it is packed."""

    dtype: str
    shape: tuple[int, ...]
    packing: str = ""


@dataclass(frozen=True, slots=True)
class KernelCandidate:
    """One config of a kernel: its CUDA text, its launches and the bytes of its workspaces.

    `estimate` is the microseconds that it should take.
    """

    config: Config
    text: str
    launches: tuple[Launch, ...]
    scratch: tuple[int, ...]
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class TunableKernel:
    """A problem's candidates, the one to compare with first, and the work it stands for.

    `version` is the hash of the template's code.
    """

    key: str
    name: str
    version: str
    weight: float
    reads: tuple[OperandBuffer, ...]
    writes: tuple[OperandBuffer, ...]
    candidates: tuple[KernelCandidate, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Kernels for one architecture, with the headers that their texts include."""

    arch: str
    compiler_arch: str
    headers: dict[str, str]
    kernels: tuple[TunableKernel, ...]

    @property
    def count(self) -> int:
        """How many candidates there are."""
        return sum(len(kernel.candidates) for kernel in self.kernels)

    def in_turns(self, turn: int = 8) -> Iterator[tuple[TunableKernel, KernelCandidate]]:
        """Every kernel's first candidates, the heaviest kernel's first; then the next ones."""
        heavy = sorted(self.kernels, key=lambda kernel: -kernel.weight)
        largest = max((len(kernel.candidates) for kernel in heavy), default=0)
        for start in range(0, largest, turn):
            for kernel in heavy:
                for candidate in kernel.candidates[start : start + turn]:
                    yield kernel, candidate

    def first(self, count: int) -> "Bundle":
        """The same with at most some candidates of each kernel."""
        first = (replace(kernel, candidates=kernel.candidates[:count]) for kernel in self.kernels)
        return replace(self, kernels=tuple(first))


def shares(bundle: Bundle, limit: int) -> Iterator[Bundle]:
    """A bundle's kernels, the heaviest first, in bundles of at most some candidates.

    A kernel of more is one by itself. Nothing but the bundle decides the shares.
    """
    share = list[TunableKernel]()
    count = 0
    for kernel in sorted(bundle.kernels, key=lambda kernel: (-kernel.weight, kernel.key)):
        if share and count + len(kernel.candidates) > limit:
            yield replace(bundle, kernels=tuple(share))
            share = []
            count = 0
        share.append(kernel)
        count += len(kernel.candidates)
    if share:
        yield replace(bundle, kernels=tuple(share))


def merge_bundles(bundles: Sequence[Bundle]) -> Bundle:
    """One bundle of several, each kernel once; ArtifactError if they do not match."""
    first = bundles[0]
    kernels = dict[str, TunableKernel]()
    for bundle in bundles:
        if (bundle.arch, bundle.headers) != (first.arch, first.headers):
            raise ArtifactError("bundles of several architectures or versions: prepare them anew")
        for kernel in bundle.kernels:
            # a kernel that several bundles have stands for the work of all of them
            old = kernels.get(kernel.key)
            weight = kernel.weight + (old.weight if old else 0.0)
            kernels[kernel.key] = replace(old or kernel, weight=weight)
    return replace(first, kernels=tuple(kernels.values()))


def bounded(bundle: Bundle, nbytes: int) -> tuple[Bundle, bytes]:
    """The bundle and its file with as many candidates a kernel as some bytes hold, at least two.

    Raises ArtifactError where two are too many.
    """
    count = max((len(kernel.candidates) for kernel in bundle.kernels), default=0)
    while len(content := packed(bundle)) > nbytes:
        if count <= FEWEST:
            raise ArtifactError(
                f"{len(bundle.kernels)} kernels with {FEWEST} candidates each take"
                f" {len(content) / 1e6:.1f} MB: allow more, or prepare fewer models at a time"
            )
        # headers do not shrink with the candidates: less than in proportion
        count = max(FEWEST, min(count - 1, int(0.95 * count * nbytes / len(content))))
        bundle = bundle.first(count)
    return bundle, content


def packed(bundle: Bundle) -> bytes:
    """The file of a bundle: a magic line, a checksum, and compressed JSON."""
    body = lzma.compress(json.dumps(asdict(bundle)).encode(), preset=PRESET)
    return MAGIC + hashlib.sha256(body).digest() + body


def save_bundle(bundle: Bundle, path: str | os.PathLike[str]) -> None:
    """Write a bundle in place of an older one once complete."""
    write(packed(bundle), path)


def write(content: bytes, path: str | os.PathLike[str]) -> None:
    """Write the file of a bundle in place of an older one; ArtifactError if that fails."""
    try:
        write_whole(Path(path), content)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror}") from error


def load_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Read a bundle; raises ArtifactError if it is damaged or of another format."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise ArtifactError(f"cannot read the bundle {path}: {error.strerror}") from error
    start = len(MAGIC) + 32
    if content[:start] != MAGIC + hashlib.sha256(content[start:]).digest():
        raise ArtifactError(f"{path} is damaged or no bundle of this version: prepare it again")
    candidate = partial(checked_record, KernelCandidate, config=_config)
    kernel = partial(
        checked_record, TunableKernel, candidates=partial(checked_items, item=candidate)
    )
    data = json.loads(lzma.decompress(content[start:]))
    return checked_record(Bundle, data, str(path), kernels=partial(checked_items, item=kernel))


def _config(value: Any, path: str) -> Config:
    return as_config(dict(value))
