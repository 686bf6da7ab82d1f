"""Measured choices of templates by architecture, as JSON lines: shipped here, or a user's own.

Reading them needs no TVM, so that the kernel cache can ask for their hash.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from compiler.caches import user_folder
from compiler.errors import ArtifactError

FORMAT = 2
KEPT = 6
"""How many of the fastest choices of a problem an entry holds."""

VARIABLE = "FLOWLOOM_TUNING"


@dataclass(frozen=True, slots=True)
class Measured:
    """A choice of a template, such as `astuple` of a contraction's Tile, and its nanoseconds."""

    tile: tuple[int, ...]
    warm: float
    cold: float | None = None


@dataclass(frozen=True, slots=True)
class InContext:
    """The choice with which a whole model was fastest, and by which part of its time."""

    tile: tuple[int, ...]
    model: str
    gain: float


@dataclass(frozen=True, slots=True)
class Entry:
    """The fastest choices for one problem on one device, the fastest first.

    `key` is what a template makes of a problem (`tuned.key_of` of a contraction). `device` is an
    architecture, a number of processors and a name; `version` names the template and the compiler.
    """

    key: str
    device: str
    version: str
    tiles: tuple[Measured, ...]
    context: InContext | None = None

    @property
    def identity(self) -> tuple[str, str, str]:
        """What there is one entry of."""
        return self.key, self.device, self.version

    @property
    def ranked(self) -> tuple[Measured, ...]:
        """The choices in the order in which they should be taken: a model's own comes first."""
        chosen = self.context.tile if self.context else None
        return tuple(sorted(self.tiles, key=lambda each: each.tile != chosen))


@dataclass(frozen=True)
class Database:
    """Entries, and the device whose entries count for more."""

    entries: list[Entry] = field(default_factory=list[Entry])
    device: str = ""


def folders() -> tuple[Path, ...]:
    """Where databases lie: in the package, and in a user's folder, which counts for more."""
    package = Path(__file__).parent
    if os.environ.get(VARIABLE):
        return package, Path(os.environ[VARIABLE])
    base = user_folder("XDG_DATA_HOME", ".local", "share")
    return (package,) if base is None else (package, base / "flowloom" / "tuning")


def user_file(arch: str) -> Path:
    """The user's own database of an architecture."""
    if (own := folders()[-1]) == Path(__file__).parent:
        raise ArtifactError(f"there is no home directory: name a folder in {VARIABLE}")
    return own / f"{arch}.jsonl"


def database_hash(arch: str) -> str:
    """A hash of all that is known of an architecture; empty where nothing is."""
    return _hash(_stamped(arch))


@cache
def _hash(files: tuple[tuple[Path, int], ...]) -> str:
    content = b"\0".join(path.read_bytes() for path, _ in files)
    return hashlib.sha256(content).hexdigest()[:16] if files else ""


def _stamped(arch: str) -> tuple[tuple[Path, int], ...]:
    """The files of an architecture and when each was written."""
    files = [path for f in folders() if (path := f / f"{arch}.jsonl").is_file()]
    return tuple((path, path.stat().st_mtime_ns) for path in files)


def known(arch: str, versions: frozenset[str] = frozenset()) -> dict[str, Entry]:
    """The entry that counts for each key; raises ArtifactError for a damaged file.

    One of `versions`, which are current, counts for more than others; then one of the device that
    the user's database is for, or else the package's; then the user's own.
    """
    return _known(_stamped(arch), versions)


def device_of(arch: str) -> str:
    """The device whose entries count for more; empty where nothing is known."""
    return next((d.device for d in reversed(_loaded(_stamped(arch))) if d.device), "")


@cache
def _known(files: tuple[tuple[Path, int], ...], versions: frozenset[str]) -> dict[str, Entry]:
    databases = _loaded(files)
    device = next((each.device for each in reversed(databases) if each.device), "")
    return select((each.entries for each in databases), device, versions)


@cache
def _loaded(files: tuple[tuple[Path, int], ...]) -> list[Database]:
    return [load(path) for path, _ in files]


def select(
    databases: Iterable[Iterable[Entry]], device: str, versions: frozenset[str]
) -> dict[str, Entry]:
    """Of each key the entry that counts most; of equals, the last database's."""

    def worth(entry: Entry) -> tuple[bool, bool]:
        return entry.version in versions, entry.device == device

    found: dict[str, Entry] = {}
    for entries in databases:
        for entry in sorted(entries, key=lambda each: each.identity):
            if entry.key not in found or worth(entry) >= worth(found[entry.key]):
                found[entry.key] = entry
    return found


def load(path: str | os.PathLike[str]) -> Database:
    """Read a database; raises ArtifactError if it is damaged or of another format."""
    try:
        first, *lines = Path(path).read_text(encoding="utf-8").splitlines()
        head: dict[str, Any] = json.loads(first)
        if head["format"] != FORMAT:
            message = f"{path}: format {head['format']}, this version reads {FORMAT}: tune again"
            raise ArtifactError(message)
        return Database([_entry(json.loads(line)) for line in lines], head["device"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"{path} is no database of tiles ({error}): remove it, or tune again"
        raise ArtifactError(message) from error


def _entry(fields: dict[str, Any]) -> Entry:
    tiles = tuple(Measured(tuple(tile), warm, cold) for tile, warm, cold in fields["tiles"])
    if not tiles:
        raise ValueError("an entry without tiles")
    found = fields.get("context")
    context = InContext(tuple(found[0]), *found[1:]) if found else None
    return Entry(fields["key"], fields["device"], fields["version"], tiles, context)


def save(path: str | os.PathLike[str], database: Database) -> None:
    """Write a database, sorted, in place of an older one only once it is complete."""
    lines = [json.dumps({"format": FORMAT, "device": database.device})]
    for entry in sorted(database.entries, key=lambda entry: entry.identity):
        tiles = [(each.tile, each.warm, each.cold) for each in entry.tiles[:KEPT]]
        fields: dict[str, Any] = {"key": entry.key, "device": entry.device}
        fields |= {"version": entry.version, "tiles": tiles}
        if found := entry.context:
            fields["context"] = (found.tile, found.model, found.gain)
        lines.append(json.dumps(fields, separators=(",", ":")))
    temporary = Path(f"{os.fspath(path)}.{os.getpid()}.tmp")
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ArtifactError(f"cannot write the database {path}: {error.strerror}") from error
