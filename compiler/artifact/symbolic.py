"""The saved form of what was compiled for all sizes: an artifact whose extents are texts.

Its manifest has, in `sizes`, the symbols, which texts call n0, n1 and so on, the slots of the arena
and the symbols that kernels read. Loading proves again that the schedule is valid for all sizes.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from compiler.artifact.artifact import (
    Artifact,
    check_host,
    kernel_files,
    read_contents,
    read_kernels,
    read_placed,
    read_semantics,
    sealed_contents,
    write_contents,
)
from compiler.artifact.manifest import ARTIFACT_MANIFEST, SCHEDULE, WEIGHTS, Vouch, trust_all
from compiler.artifact.weights import Placing, in_one_block
from compiler.backends.base import Array
from compiler.backends.memory import aligned_copy, check_weights
from compiler.errors import ArtifactError, FlowloomError, ShapeError
from compiler.schedule.symbolic import ArenaSlot, SymbolicSchedule, with_numbers
from compiler.schedule.tasks import Schedule
from compiler.tensors.assumptions import assuming_nothing
from compiler.tensors.extent_text import extent_to_text, with_identifiers
from compiler.tensors.extents import Extent, Undecided
from compiler.tensors.symbols import Symbol
from compiler.verify import checked_json as read
from compiler.verify.all_sizes import SizesCertificate, certified_for_all_sizes
from compiler.verify.schedule_json import from_json, to_json
from compiler.verify.seals import sealed_kernel

SIZES_ENTRY = "sizes"
"""The entry of a manifest by which an artifact is one for all sizes."""


@dataclass(frozen=True)
class SymbolicArtifact:
    """All that a backend needs to run a model for all sizes within the certificate's limits."""

    target: str
    certificate: SizesCertificate
    weights: Mapping[str, Array]
    requirements: Mapping[str, Any]
    semantics: Mapping[str, str]

    @property
    def schedule(self) -> SymbolicSchedule:
        """The schedule and its kernels."""
        return self.certificate.schedule

    def at(self, sizes: Mapping[str, int]) -> Artifact:
        """The content of a module for sizes by symbol, computed without the certificate.

        Sizes that a run measures are their bounds.
        """
        instance = self.schedule.at({**self.certificate.measuring.most, **sizes})
        extents = {
            name: aligned_copy(np.array(values, np.int64))
            for name, values in instance.extents.items()
        }
        return Artifact(
            target=self.target,
            schedule=instance.schedule,
            kernels={name: sealed_kernel(kernel) for name, kernel in instance.kernels.items()},
            weights={**self.weights, **extents},
            requirements=self.requirements,
            semantics=self.semantics,
        )


@dataclass(frozen=True)
class SymbolNames:
    """Symbols by name, and the identifiers that texts of extents have for them."""

    identifiers: Mapping[str, str]
    symbols: Mapping[str, Symbol]
    """By identifier."""

    @classmethod
    def of(cls, symbols: Sequence[Symbol]) -> Self:
        """Identifiers by number."""
        identifiers = {symbol.name: f"n{number}" for number, symbol in enumerate(symbols)}
        return cls(identifiers, {identifiers[symbol.name]: symbol for symbol in symbols})

    def text(self, extent: Extent) -> int | str:
        """A number, or the text of an extent."""
        return extent_to_text(extent, self.identifiers)

    def extent(self, value: object, path: str) -> int:
        """The size of an axis from its text; raises ArtifactError for another text."""
        return read.extents_over(self.symbols)(value, path)

    def any_extent(self, value: object, path: str) -> int:
        """An extent, which may be negative, from its text; ArtifactError for another text."""
        return read.extents_over(self.symbols, negative=True)(value, path)


def save(
    artifact: SymbolicArtifact,
    directory: str | os.PathLike[str],
    symbols: Iterable[Symbol],
    segment: Callable[[SymbolNames], Mapping[str, Any]],
) -> None:
    """Write an artifact to a new directory; `segment` gives further entries of its manifest.

    These may have `symbols`, and those of the schedule.
    """
    folder = Path(directory)
    folder.mkdir()
    schedule = artifact.schedule
    sized = {**{symbol.name: symbol for symbol in symbols}, **schedule.symbols}
    names = SymbolNames.of([*sized.values(), *(slot.offset for slot in schedule.slots)])
    contents = {SCHEDULE: to_json(_with_identifiers(schedule, names)).encode()}
    contents |= kernel_files(schedule.kernels)
    files = write_contents(folder, contents, artifact.weights, durable=True)
    sizes = {
        "symbols": [asdict(symbol) for symbol in sized.values()],
        "slots": [asdict(s) | {"nbytes": names.text(s.nbytes)} for s in schedule.slots],
        "extents": {name: [*symbols] for name, symbols in schedule.extents.items()},
        "segment": segment(names),
    }
    entries = {
        "target": artifact.target,
        "requirements": artifact.requirements,
        "semantics": dict(artifact.semantics),
        SIZES_ENTRY: sizes,
    }
    sealed = sealed_contents(artifact.certificate.digest, files)
    ARTIFACT_MANIFEST.write(folder, entries, files, sealed)


def _with_identifiers(symbolic: SymbolicSchedule, names: SymbolNames) -> Schedule:
    """The schedule over symbols that have identifiers for names."""

    def renamed(extent: Extent) -> Extent:
        return with_identifiers(extent, names.identifiers)

    arenas = [arena.shape[0] for arena in symbolic.schedule.of_kind("arena")]
    return with_numbers(symbolic.schedule, renamed, renamed(arenas[0]) if arenas else 0)


def load(
    directory: str | os.PathLike[str],
    check: Callable[[str, Any], None],
    place: Placing = in_one_block,
    vouch: Vouch = trust_all,
) -> tuple[SymbolicArtifact, SymbolNames, dict[str, object]]:
    """Read an artifact, the names of its symbols, and the entries of its segment.

    Arguments are those of `compiler.artifact.artifact.load`; everything is verified as there, and
    the schedule for all sizes. Raises ArtifactError, naming the file.
    """
    folder = Path(directory)
    manifest, contents = read_contents(folder, vouch)
    path = f"{folder / ARTIFACT_MANIFEST.file}: {SIZES_ENTRY}"
    sizes = read.as_object(manifest.get(SIZES_ENTRY), path)
    files: Mapping[str, Any] = manifest["files"]
    try:
        schedule, names = _schedule(sizes, path, contents)
        certificate = certified_for_all_sizes(schedule)
    except (LookupError, ValueError, FlowloomError, Undecided) as error:
        raise ArtifactError(f"{folder} holds no valid schedule and kernels: {error}") from error
    ARTIFACT_MANIFEST.check_seal(folder, manifest, sealed_contents(certificate.digest, files))
    check_host(folder, manifest, check)
    weights = read_placed(folder, files, place)
    try:
        check_weights(certificate.numbers.with_weights_alone, weights)
    except ShapeError as error:
        raise ArtifactError(f"{folder / WEIGHTS}: {error}") from error
    artifact = SymbolicArtifact(
        target=manifest["target"],
        certificate=certificate,
        weights=weights,
        requirements=manifest["requirements"],
        semantics=read_semantics(manifest, folder) or {},
    )
    return artifact, names, read.as_object(sizes.get("segment"), f"{path}.segment")


def _schedule(
    sizes: dict[str, object], path: str, contents: Mapping[str, bytes]
) -> tuple[SymbolicSchedule, SymbolNames]:
    symbols = read.checked_items(sizes.get("symbols"), f"{path}.symbols", read.checked_symbol)
    offsets = read.checked_items(sizes.get("slots"), f"{path}.slots", _offset)
    names = SymbolNames.of((*symbols, *offsets))

    def slot(value: object, path: str) -> ArenaSlot:
        entry = read.as_object(value, path)
        return ArenaSlot(
            _offset(value, path),
            names.extent(entry.get("nbytes"), f"{path}.nbytes"),
            read.checked_items(entry.get("below"), f"{path}.below", read.natural),
        )

    extents = read.as_object(sizes.get("extents"), f"{path}.extents")
    with assuming_nothing():  # a kernel's symbols are its own: no run could check what they assume
        kernels = read_kernels(contents)
    return SymbolicSchedule(
        from_json(contents[SCHEDULE].decode(), names.symbols),
        kernels,
        {
            name: read.checked_items(extents[name], f"{path}.extents.{name}", read.text)
            for name in extents
        },
        read.checked_items(sizes.get("slots"), f"{path}.slots", slot),
    ), names


def _offset(value: object, path: str) -> Symbol:
    """The symbol of a slot's offset."""
    entry = read.as_object(value, path)
    return read.checked_symbol(entry.get("offset"), f"{path}.offset")
