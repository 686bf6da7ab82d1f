"""Measured tiles of contractions by architecture, as JSON lines: shipped here, or a user's own.

Reading them needs no TVM, so that the kernel cache can ask for their hash.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from compiler.errors import ArtifactError

FORMAT = 1
KEPT = 6
"""How many of the fastest tiles of a problem an entry holds."""

VARIABLE = "FLOWLOOM_TUNING"


@dataclass(frozen=True, slots=True)
class Measured:
    """A tile (rows, columns, warp's rows and columns, shares, stages) and its nanoseconds."""

    tile: tuple[int, ...]
    warm: float
    cold: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """The fastest tiles of one problem on one device, the fastest first.

    `key` is what `tuned.key_of` makes of a problem; `version` names the templates that ran.
    """

    key: str
    device: str
    version: str
    tiles: tuple[Measured, ...]


def folders() -> tuple[Path, ...]:
    """Where databases lie: in the package, and in a user's folder, which counts for more."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    own = os.environ.get(VARIABLE) or Path(base) / "flowloom" / "tuning"
    return (Path(__file__).parent, Path(own))


def user_file(arch: str) -> Path:
    """The user's own database of an architecture."""
    return folders()[-1] / f"{arch}.jsonl"


def database_hash(arch: str) -> str:
    """A hash of all that is known of an architecture; empty where nothing is."""
    return _hash(_stamped(arch))


@cache
def _hash(files: tuple[tuple[Path, int], ...]) -> str:
    content = b"\0".join(path.read_bytes() for path, _ in files)
    return hashlib.sha256(content).hexdigest()[:16] if files else ""


def _files(arch: str) -> list[Path]:
    return [path for f in folders() if (path := f / f"{arch}.jsonl").is_file()]


def known(arch: str) -> dict[str, Entry]:
    """Every entry of an architecture by its key; raises ArtifactError for a damaged file."""
    return _known(_stamped(arch))


def _stamped(arch: str) -> tuple[tuple[Path, int], ...]:
    """The files of an architecture and when each was written."""
    return tuple((path, path.stat().st_mtime_ns) for path in _files(arch))


@cache
def _known(files: tuple[tuple[Path, int], ...]) -> dict[str, Entry]:
    return {entry.key: entry for path, _ in files for entry in load(path)}


def load(path: str | os.PathLike[str]) -> list[Entry]:
    """Read a database; raises ArtifactError if it is damaged or of another format."""
    try:
        first, *lines = Path(path).read_text(encoding="utf-8").splitlines()
        found = json.loads(first)["format"]
        if found != FORMAT:
            raise ArtifactError(f"{path}: format {found}, this version reads {FORMAT}")
        return [_entry(json.loads(line)) for line in lines]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path} is no database of tiles ({error}): remove it, or tune again"
        raise ArtifactError(message) from error


def _entry(fields: dict[str, Any]) -> Entry:
    tiles = tuple(Measured(tuple(tile), warm, cold) for tile, warm, cold in fields["tiles"])
    if not tiles:
        raise ValueError("an entry without tiles")
    return Entry(fields["key"], fields["device"], fields["version"], tiles)


def save(path: str | os.PathLike[str], entries: Iterable[Entry]) -> None:
    """Write a database, sorted, in place of an older one only once it is complete."""
    lines = [json.dumps({"format": FORMAT})]
    for entry in sorted(entries, key=lambda entry: entry.key):
        tiles = [(each.tile, each.warm, each.cold) for each in entry.tiles[:KEPT]]
        fields = {"key": entry.key, "device": entry.device, "version": entry.version}
        lines.append(json.dumps(fields | {"tiles": tiles}, separators=(",", ":")))
    temporary = Path(f"{os.fspath(path)}.{os.getpid()}.tmp")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.replace(temporary, path)
