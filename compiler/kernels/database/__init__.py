"""Measured configs of templates by architecture, as JSON lines: the package's and the user's.

A line has a problem and its measured configs, with named fields. Reading it does not need TVM, so
that the kernel cache can ask for its hash. To a compilation a database is a cache: what cannot be
read of it is warned of and left out. Commands that change a database refuse one that is damaged.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from compiler.errors import ArtifactError
from compiler.kernels.database.fields import (
    FIELD_TYPES,
    Config,
    Interval,
    as_config,
    as_interval,
    as_time,
    problem_fields,
    problem_key,
)
from compiler.support.caches import read_regular, user_folder, write_whole
from compiler.support.words import counted

FORMAT = 3
KEPT = 6
"""How many of the fastest configs of a problem an entry holds."""

DATABASE_VARIABLE = "FLOWLOOM_TUNING"

MALFORMED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The errors of reading a damaged or a foreign file."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A config of a template and its nanoseconds with warm and cold caches.

    `interval` is the 95 % interval of the warm time; None where it was not recorded.
    """

    config: Config
    warm: float
    cold: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class InContext:
    """The config with which a whole model was fastest, and the fraction of its time saved."""

    config: Config
    model: str
    gain: float


@dataclass(frozen=True, slots=True)
class Entry:
    """The fastest configs for one problem on one device, the fastest first.

    `key` is the text of the problem's fields (`problem_key`). `device` is an architecture, a number
    of SMs and a name; `version` is that of the template's code and the compiler.
    """

    key: str
    device: str
    version: str
    configs: tuple[Measured, ...]
    context: InContext | None = None

    @property
    def identity(self) -> tuple[str, str, str]:
        """The fields that identify an entry."""
        return self.key, self.device, self.version

    @property
    def ranked(self) -> tuple[Measured, ...]:
        """The configs in order of preference: the fastest one within a model comes first."""
        chosen = self.context.config if self.context else None
        return tuple(sorted(self.configs, key=lambda measured: measured.config != chosen))


@dataclass(frozen=True)
class Database:
    """Entries, and the device whose entries take precedence."""

    entries: list[Entry] = field(default_factory=list[Entry])
    device: str = ""


def folders() -> tuple[Path, ...]:
    """The folders of databases: the package's, and the user's, which takes precedence."""
    package = Path(__file__).parent
    if os.environ.get(DATABASE_VARIABLE):
        return package, Path(os.environ[DATABASE_VARIABLE])
    base = user_folder("XDG_DATA_HOME", ".local", "share")
    return (package,) if base is None else (package, base / "flowloom" / "tuning")


def user_file(arch: str) -> Path:
    """The user's database of an architecture."""
    if (own := folders()[-1]) == Path(__file__).parent:
        raise ArtifactError(f"there is no home directory: name a folder in {DATABASE_VARIABLE}")
    return own / f"{arch}.jsonl"


def database_hash(arch: str) -> str:
    """A hash of the databases of an architecture; empty without any."""
    return _hash(_stamped(arch))


@cache
def _hash(files: tuple[tuple[Path, int], ...]) -> str:
    contents: list[bytes] = []
    for path, _ in files:
        with suppress(OSError):  # what cannot be read decides nothing
            contents.append(read_regular(path))
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16] if contents else ""


def _stamped(arch: str) -> tuple[tuple[Path, int], ...]:
    """The files of an architecture and their modification times."""
    files = ((path := folder / f"{arch}.jsonl", _changed(path)) for folder in folders())
    return tuple((path, time) for path, time in files if time is not None)


def _changed(path: Path) -> int | None:
    """When a file was changed; None if there is none. One question, as file systems may be slow."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def known(arch: str, versions: frozenset[str] = frozenset()) -> dict[str, Entry]:
    """The preferred entry of each key; warns once of what cannot be read.

    Entries of the current `versions` take precedence, then those of the device that the user's
    database is for, or else the package's, then those of the user's database.
    """
    return _known(_stamped(arch), versions)


def device_of(arch: str) -> str:
    """The device whose entries take precedence; empty without a database."""
    return next((d.device for d in reversed(_loaded(_stamped(arch))) if d.device), "")


@cache
def _known(files: tuple[tuple[Path, int], ...], versions: frozenset[str]) -> dict[str, Entry]:
    databases = _loaded(files)
    device = next((d.device for d in reversed(databases) if d.device), "")
    return select_entries((d.entries for d in databases), device, versions)


@cache
def _loaded(files: tuple[tuple[Path, int], ...]) -> list[Database]:
    return [_readable_part(path) for path, _ in files]


def select_entries(
    databases: Iterable[Iterable[Entry]], device: str, versions: frozenset[str]
) -> dict[str, Entry]:
    """The preferred entry of each key; of equals, the last database's."""

    def rank(entry: Entry) -> tuple[bool, bool]:
        return entry.version in versions, entry.device == device

    preferred: dict[str, Entry] = {}
    for entries in databases:
        for entry in sorted(entries, key=lambda entry: entry.identity):
            if entry.key not in preferred or rank(entry) >= rank(preferred[entry.key]):
                preferred[entry.key] = entry
    return preferred


def typed_config(kinds: Iterable[type[Any]], values: Config) -> Any:
    """A config of fields that a database holds, of the one of some dataclasses that has these.

    None, after a warning, where no dataclass has them, or not with these types: another version of
    the template wrote them, or another program.
    """
    for kind in kinds:
        types = _field_types(kind)
        if all(types.get(name, type(value)) is type(value) for name, value in values):
            with suppress(TypeError):
                return kind(**dict(values))
    _warn_of_unknown(", ".join(name for name, _ in values))
    return None


@cache
def _warn_of_unknown(names: str) -> None:
    warnings.warn(
        f"a database of tuned configs has one of the fields {names}, which this version does not"
        f" know: it is left out; remove the files of older versions in {folders()[-1]}",
        stacklevel=3,
    )


@cache
def _field_types(kind: type[Any]) -> Mapping[str, Any]:
    """The types of a dataclass's fields that are plain ones."""
    hints = get_type_hints(kind)
    return {name: hint for name, hint in hints.items() if hint in FIELD_TYPES}


def load(path: str | os.PathLike[str]) -> Database:
    """Read a database; raises ArtifactError for other formats and damaged ones."""
    try:
        device, lines = _head_and_lines(path)
        return Database([_entry(line) for line in lines], device)
    except MALFORMED as error:
        message = f"{path} is not a database of tuned configs ({_reason(error)}): remove it"
        raise ArtifactError(message) from error


def _readable_part(path: Path) -> Database:
    """The lines of a database that can be read, with a warning of the others."""
    entries: list[Entry] = []
    failures: list[Exception] = []
    try:
        device, lines = _head_and_lines(path)
    except MALFORMED as error:
        warnings.warn(
            f"{path} is not a database of tuned configs ({_reason(error)}) and is left out:"
            " remove it",
            stacklevel=2,
        )
        return Database()
    for line in lines:
        try:
            entries.append(_entry(line))
        except MALFORMED as error:
            failures.append(error)
    if failures:
        warnings.warn(
            f"{path}: {counted(len(failures), 'line')} cannot be read, the first by"
            f" {_reason(failures[0])}, and are left out: remove the file",
            stacklevel=2,
        )
    return Database(entries, device)


def _head_and_lines(path: str | os.PathLike[str]) -> tuple[str, list[str]]:
    """The device of a database, and its lines; raises one of MALFORMED for another file."""
    first, *lines = read_regular(path).decode().splitlines() or [""]
    head = json.loads(first)
    if head["format"] != FORMAT:
        raise ValueError(f"its format is {head['format']}, this version reads {FORMAT}")
    if not isinstance(head["device"], str):
        raise ValueError("its device is not a text")
    return head["device"], lines


def _reason(error: Exception) -> str:
    missing = isinstance(error, KeyError)
    return f"it has no {error}" if missing else str(getattr(error, "strerror", None) or error)


def _entry(text: str) -> Entry:
    """The entry of a line; raises one of MALFORMED."""
    line: dict[str, Any] = json.loads(text)
    problem: dict[str, Any] = line["problem"]
    configs = tuple(map(_measured, line["configs"]))
    if not configs:
        raise ValueError("an entry without configs")
    if not all(isinstance(text, str) for text in (line["device"], line["version"])):
        raise ValueError("a device or a version that is not a text")
    context_fields = line.get("context")
    context = (
        InContext(as_config(context_fields.pop("config")), **context_fields)
        if context_fields
        else None
    )
    key = problem_key(problem.pop("template"), dict(as_config(problem)))
    return Entry(key, line["device"], line["version"], configs, context)


def _measured(line: dict[str, Any]) -> Measured:
    config = as_config(line["config"])
    interval = line.get("interval")
    cold = None if line["cold"] is None else as_time(line["cold"])
    return Measured(config, as_time(line["warm"]), cold, interval and as_interval(interval))


def save(path: str | os.PathLike[str], database: Database) -> None:
    """Write a database, sorted; it replaces an older one atomically."""
    lines = [json.dumps({"format": FORMAT, "device": database.device})]
    for entry in sorted(database.entries, key=lambda entry: entry.identity):
        lines.append(json.dumps(_line(entry), separators=(",", ":")))
    try:
        write_whole(Path(path), ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise ArtifactError(f"cannot write the database {path}: {error.strerror}") from error


def _measured_line(measured: Measured) -> dict[str, Any]:
    line = {"config": dict(measured.config), "warm": measured.warm, "cold": measured.cold}
    return line if measured.interval is None else {**line, "interval": measured.interval}


def _line(entry: Entry) -> dict[str, Any]:
    configs = [_measured_line(measured) for measured in entry.configs[:KEPT]]
    line: dict[str, Any] = {"problem": problem_fields(entry.key), "device": entry.device}
    line |= {"version": entry.version, "configs": configs}
    if context := entry.context:
        line["context"] = {
            "config": dict(context.config),
            "model": context.model,
            "gain": context.gain,
        }
    return line
