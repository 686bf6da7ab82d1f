"""Edits saved directories as a tool would that knows the hashes of files, but not the seals."""

import hashlib
import json
from pathlib import Path
from typing import Any

from compiler.export.manifest import format_in, manifest_digest


def redo_hashes(folder: Path, **entries: object) -> None:
    """Set entries of a manifest, then make all sizes and hashes anew, those of segments first."""
    for manifest in sorted(folder.glob("segments/*/manifest.json")):
        redo_hashes(manifest.parent)
    path = folder / format_in(folder).file
    manifest: Any = json.loads(path.read_text()) | entries
    for name, entry in manifest["files"].items():
        if (folder / name).is_file():
            content = (folder / name).read_bytes()
            entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_text(json.dumps(manifest | {"sha256": manifest_digest(manifest)}, indent=1) + "\n")


def edit_json(path: Path, edit: Any) -> None:
    """Let a function edit the content of a JSON file in place."""
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
