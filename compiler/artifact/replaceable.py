"""Whether a saved directory may be put in a place: asked before anything is made to be saved.

A place is free, an empty directory, or a saved directory of either kind without the user's files.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from compiler.artifact.manifest import (
    ARTIFACT_MANIFEST,
    PROGRAM_MANIFEST,
    SEGMENTS_FOLDER,
    ManifestFormat,
    format_in,
)
from compiler.artifact.replacing import check_place, contents
from compiler.artifact.signing import SIGNATURE_SUFFIX
from compiler.errors import ArtifactError
from compiler.support.caches import read_regular


def check_replaceable(directory: str | os.PathLike[str]) -> None:
    """Raise ArtifactError unless a saved directory can be written to a place."""
    check_place(Path(directory))
    folder = Path(os.path.abspath(directory))
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise ArtifactError(f"{folder} exists and is not an artifact: choose another directory")
    names = contents(folder)
    if not names:
        return
    kind = format_in(folder)
    manifest = _old_manifest(folder, kind)
    if manifest.get("format") != kind.format:
        raise ArtifactError(f"{folder} exists and is not an artifact: choose another directory")
    for name in names:
        if not _belongs(name, kind, manifest.get("files")):
            raise ArtifactError(
                f"{folder / name} does not belong to the {kind.what} there: move it away, or choose"
                " another directory"
            )


def _belongs(name: str, kind: ManifestFormat, files: object) -> bool:
    """Whether a name is one of a saved directory's files, of which `files` are those it lists."""
    signature = Path(kind.file).with_suffix(SIGNATURE_SUFFIX).name
    if name in (kind.file, signature, "kernels"):
        return True
    if kind is PROGRAM_MANIFEST and name.startswith(f"{SEGMENTS_FOLDER}/"):
        below = name.split("/", 2)[2:]
        return bool(below) and _belongs(below[0], ARTIFACT_MANIFEST, None)
    return name in files if isinstance(files, dict) else bool(kind.names.fullmatch(name))


def _old_manifest(folder: Path, kind: ManifestFormat) -> Mapping[str, Any]:
    """The manifest, of any version or truncated; empty for other files."""
    try:
        content = read_regular(folder / kind.file)
    except OSError:
        return {}
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        return {"format": kind.format} if kind.head.match(content) else {}
    return cast(dict[str, Any], manifest) if isinstance(manifest, dict) else {}
