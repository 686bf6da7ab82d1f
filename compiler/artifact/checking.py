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
    trust_all,
    with_sha256,
)
from compiler.artifact.program_options import read_program_manifest
from compiler.artifact.symbolic import SymbolicArtifact
from compiler.artifact.weights import Placing, in_one_block
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
        # Only the program's manifest is signed; it has the hashes of its segments' manifests.
        yield _checked(folder, with_sha256(digest))


def _checked(directory: Path, vouch: Vouch) -> CheckedArtifact:
    files = ARTIFACT_MANIFEST.read(directory, vouch)["files"]
    return CheckedArtifact(directory, read_artifact(directory, _where_they_are, vouch), len(files))


def read_artifact(
    directory: Path, place: Placing = in_one_block, vouch: Vouch = trust_all
) -> Artifact | SymbolicArtifact:
    """The artifact of a directory, of numbers or for all sizes, whatever host it is for.

    Raises ArtifactError.
    """
    is_artifact = format_in(directory) is ARTIFACT_MANIFEST
    if is_artifact and symbolic.SIZES_ENTRY in ARTIFACT_MANIFEST.read(directory, vouch):
        return symbolic.load(directory, _any_host, place, vouch)[0]
    return artifact.load(directory, _any_host, place, vouch)


def _any_host(target: str, requirements: Any) -> None:
    """Accepts every host: what is checked need not run here."""


def _where_they_are(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Leaves weights in the memory of their file."""
    return {**tensors}
