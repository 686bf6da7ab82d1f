"""Edits saved directories as a tool would that knows the hashes of files, but not the seals."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiler.artifact.manifest import ARTIFACT_MANIFEST, PROGRAM_MANIFEST, manifest_digest

Files = dict[str, bytes]
"""The files of a directory, by their names in it."""


def files_in(folder: Path) -> Files:
    """All files of a directory."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def rehashed(files: Files, listed: bool = True) -> Files:
    """The files with sizes and hashes made anew in all manifests that are JSON objects.

    Unless `listed`, the entries of files stay, and only manifests' digests of themselves are anew.
    """
    changed = dict(files)
    order = (ARTIFACT_MANIFEST.file, PROGRAM_MANIFEST.file)  # that of a program has the others'
    for kind in order:
        for path in sorted(name for name in files if name.rpartition("/")[2] == kind):
            folder = path.removesuffix(kind)
            try:
                manifest: Any = json.loads(changed[path])
                entries = manifest["files"].items() if listed else ()
                for name, entry in entries:
                    content = changed.get(f"{folder}{name}", b"")
                    entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                manifest["sha256"] = manifest_digest(manifest)
            except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
                continue  # such a manifest is refused before anything is hashed
            changed[path] = (json.dumps(manifest, indent=1) + "\n").encode()
    return changed


def redo_hashes(folder: Path, **entries: object) -> None:
    """Set entries of a directory's manifest, then make all sizes and hashes anew."""
    files = files_in(folder)
    kind = PROGRAM_MANIFEST if PROGRAM_MANIFEST.file in files else ARTIFACT_MANIFEST
    files[kind.file] = json.dumps(json.loads(files[kind.file]) | entries).encode()
    for name, content in rehashed(files).items():
        (folder / name).write_bytes(content)


def edit_json(path: Path, edit: Callable[[Any], None]) -> None:
    """Let a function edit the content of a JSON file in place."""
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
