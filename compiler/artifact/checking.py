"""Everything that loading checks, of an artifact or a program, without a device."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.artifact import artifact, symbolic
from compiler.artifact.artifact import Artifact
from compiler.artifact.manifest import (
    ARTIFACT_MANIFEST,
    Vouch,
    format_in,
    program_segments,
    with_sha256,
)
from compiler.artifact.program_options import read_program_manifest
from compiler.artifact.symbolic import SymbolicArtifact
from compiler.backends.base import Array


@dataclass(frozen=True, slots=True)
class CheckedArtifact:
    """An artifact that passed, and the number of files whose SHA-256 was compared."""

    directory: Path
    artifact: Artifact | SymbolicArtifact
    files: int


def checked_artifacts(directory: Path, vouch: Vouch) -> Iterator[CheckedArtifact]:
    """The artifact of a directory, or each segment of a program, once it is checked.

    Everything is checked that `compiler.load` checks, but not whether this host can run it. Raises
    ArtifactError.
    """
    if format_in(directory) is ARTIFACT_MANIFEST:
        yield _checked(directory, vouch)
        return
    manifest, _ = read_program_manifest(directory, vouch)
    for folder, digest in program_segments(directory, manifest).items():
        yield _checked(folder, with_sha256(digest))


def _checked(directory: Path, vouch: Vouch) -> CheckedArtifact:
    manifest = ARTIFACT_MANIFEST.read(directory, vouch)
    checked = (
        symbolic.load(directory, _any_host, _where_they_are, vouch)[0]
        if symbolic.SIZES_ENTRY in manifest
        else artifact.load(directory, _any_host, _where_they_are, vouch)
    )
    return CheckedArtifact(directory, checked, len(manifest["files"]))


def _any_host(target: str, requirements: Any) -> None:
    """Accepts every host: what is checked need not run here."""


def _where_they_are(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Leaves weights in the memory of their file."""
    return {**tensors}
