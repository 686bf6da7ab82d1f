"""The saved form of a compiled module: a directory of plain files listed in a manifest.

manifest.json (format version, target, requirements, choice, tuning; size and SHA-256 of every other
file), schedule.json, kernels/ (one file a kernel, and kernels.json), weights.safetensors, and
library.so for targets that run through the C interface of an exported project.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from compiler.backends.base import Array
from compiler.backends.memory import check_weights
from compiler.errors import ArtifactError, FlowloomError, ScheduleError, ShapeError
from compiler.export.choice_json import choice_from_json, choice_to_json, tuning_from_json
from compiler.export.kernels_json import kernel_files, read_kernels
from compiler.export.replacing import contents, replacing
from compiler.export.weights import Placing, in_one_block, read_weights, write_weights
from compiler.schedule import KernelSpec, Schedule, ScheduleChoice, TuningRecord
from compiler.verify import checked_json as read
from compiler.verify.happens_before import check_schedule
from compiler.verify.kernel_operands import check_operands
from compiler.verify.schedule_json import from_json, to_json

FORMAT = "flowloom-artifact"
VERSION = 3
"""Incremented whenever a reader of the old version would misread the new one."""

MANIFEST = "manifest.json"
SCHEDULE = "schedule.json"
KERNELS_FILE = "kernels/kernels.json"
WEIGHTS = "weights.safetensors"
LIBRARY = "library.so"

_HEAD = re.compile(rb'\{\s*"format":\s*"%b"' % FORMAT.encode())
"""How a manifest begins."""

_NAMES = re.compile(
    rf"{SCHEDULE}|{KERNELS_FILE}|{WEIGHTS}|{LIBRARY}|kernels/\d{{4,}}\.(o|cubin|hsaco|zip|cu|hip)"
)
"""Names of an artifact's files, where no manifest lists them."""


@dataclass(frozen=True)
class Artifact:
    """The content of a saved module: all that a backend needs to run it."""

    target: str
    requirements: Mapping[str, Any]
    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    weights: Mapping[str, Array]
    choice: ScheduleChoice | None = None
    """How the schedule and its execution mode were chosen, on targets where there is a choice."""
    tuning: TuningRecord | None = None
    """The kernels that were measured before they were built, if any were."""
    library: bytes = b""
    """The shared library of the whole module, for targets that run through one."""


def save(artifact: Artifact, directory: str | os.PathLike[str]) -> None:
    """Write an artifact to a temporary directory, then move it; an older artifact is replaced.

    Raises ArtifactError, with nothing changed, if `directory` is something else or cannot be
    written.
    """
    place = Path(os.path.abspath(directory))
    if os.path.lexists(place):
        _check_replaceable(place)
    with replacing(place) as new:
        new.mkdir()
        _write_files(artifact, new)


def _check_replaceable(place: Path) -> None:
    """Raise ArtifactError unless a directory is an artifact without further files, or empty."""
    if place.is_symlink() or not place.is_dir():
        raise ArtifactError(f"{place} exists and is not an artifact: choose another directory")
    found = contents(place)
    if not found:
        return
    manifest = _old_manifest(place)
    if manifest.get("format") != FORMAT:
        raise ArtifactError(f"{place} exists and is not an artifact: choose another directory")
    files = manifest.get("files")
    for name in found:
        ours = name in files if isinstance(files, dict) else _NAMES.fullmatch(name)
        if not ours and name not in (MANIFEST, "kernels"):
            raise ArtifactError(
                f"{place / name} does not belong to the artifact there: move it away, or choose "
                "another directory"
            )


def _old_manifest(place: Path) -> dict[str, Any]:
    """The manifest, of any version or truncated; empty for other files."""
    try:
        content = (place / MANIFEST).read_bytes()
    except OSError:
        return {}
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        return {"format": FORMAT} if _HEAD.match(content) else {}
    return cast(dict[str, Any], manifest) if isinstance(manifest, dict) else {}


def _write_files(artifact: Artifact, directory: Path) -> None:
    (directory / "kernels").mkdir()
    table, codes = kernel_files(artifact.kernels)
    texts = {SCHEDULE: to_json(artifact.schedule), KERNELS_FILE: table}
    contents = {name: text.encode() for name, text in texts.items()} | codes
    if artifact.library:
        contents[LIBRARY] = artifact.library
    files = {
        name: _write(directory / name, lambda write, content=content: write(content))
        for name, content in contents.items()
    }
    files[WEIGHTS] = _write(
        directory / WEIGHTS, lambda write: write_weights(write, artifact.weights)
    )
    head = {"format": FORMAT, "version": VERSION, "target": artifact.target}
    manifest = {**head, "requirements": artifact.requirements, "files": files}
    if artifact.choice is not None:
        manifest["choice"] = choice_to_json(artifact.choice)
    if artifact.tuning is not None:
        manifest["tuning"] = asdict(artifact.tuning)
    text = json.dumps(manifest | {"sha256": manifest_digest(manifest)}, indent=1) + "\n"
    _write(directory / MANIFEST, lambda write: write(text.encode()))


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of a manifest's other entries, which its entry `sha256` must be."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    plain = json.loads(json.dumps(rest))  # keys as they are read: all of them strings
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _write(path: Path, produce: Callable[[Callable[[Any], Any]], Any]) -> dict[str, Any]:
    """Write a file to the disk, hashing on the way; its entry in the manifest."""
    manifest_digest = hashlib.sha256()
    with path.open("wb") as file:

        def write(part: Any) -> None:
            manifest_digest.update(part)
            file.write(part)

        produce(write)
        file.flush()
        os.fsync(file.fileno())
        return {"bytes": file.tell(), "sha256": manifest_digest.hexdigest()}


def load(
    directory: str | os.PathLike[str],
    check: Callable[[str, Any], None],
    place: Placing = in_one_block,
) -> Artifact:
    """Read an artifact after verifying every file and the schedule.

    `check(target, requirements)` is called first and may refuse them; `place` puts weights
    somewhere. Raises ArtifactError, naming the file, if any is missing, truncated, edited or of
    another format version.
    """
    folder = Path(directory)
    manifest = _manifest(folder)
    choice = _choice(manifest, folder)
    _check_host(manifest, folder, check)
    for name, entry in manifest["files"].items():
        _verify(folder / name, entry["bytes"], entry["sha256"])
    try:
        kernels = _kernels(folder, manifest["files"])
        schedule = from_json((folder / SCHEDULE).read_text(encoding="utf-8"))
        check_schedule(schedule)
        check_operands(schedule, kernels)
    except (OSError, ValueError, ArtifactError, ScheduleError) as error:
        raise ArtifactError(f"{folder} holds no valid schedule and kernels: {error}") from error
    weights = read_weights(folder / WEIGHTS, place)
    try:
        check_weights(schedule, weights)
    except ShapeError as error:
        raise ArtifactError(f"{folder / WEIGHTS}: {error}") from error
    return Artifact(
        target=manifest["target"],
        requirements=manifest["requirements"],
        schedule=schedule,
        kernels=kernels,
        weights=weights,
        choice=choice,
        tuning=tuning_from_json(manifest.get("tuning"), f"{folder / MANIFEST}: tuning"),
        library=(folder / LIBRARY).read_bytes() if LIBRARY in manifest["files"] else b"",
    )


def _check_host(
    manifest: Mapping[str, Any], place: Path, check: Callable[[str, Any], None]
) -> None:
    """Call the backend's `check`; ArtifactError if the requirements are not such as it writes."""
    try:
        check(manifest["target"], manifest["requirements"])
    except FlowloomError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{place / MANIFEST} has no valid requirements of the target '{manifest['target']}'"
            f" ({error!r}): compile the model again"
        ) from error


def _choice(manifest: Mapping[str, Any], place: Path) -> ScheduleChoice | None:
    found = manifest.get("choice")
    return None if found is None else choice_from_json(found, f"{place / MANIFEST}: choice")


def _manifest(place: Path) -> dict[str, Any]:
    path = place / MANIFEST
    if (place / "program.json").exists():
        raise ArtifactError(
            f"{place} is a dynamic module: name the artifact of one of its compiled segments, which"
            f" are in {place / 'segments'} once it has run and was saved"
        )
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise ArtifactError(
            f"no artifact in {place}: {MANIFEST}: {error.strerror}; `flowloom compile MODEL -o DIR`"
            " makes one"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged ({error}): compile the model again") from error
    if not isinstance(manifest, dict):
        raise ArtifactError(f"{path} is not the manifest of a Flowloom artifact")
    return _checked(path, cast(dict[str, Any], manifest))


def _checked(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest, if it is of this version and vouches for every file that is read."""
    if manifest.get("format") != FORMAT:
        raise ArtifactError(f"{path} is not the manifest of a Flowloom artifact")
    if manifest.get("version") != VERSION:
        raise ArtifactError(
            f"{path} has format version {manifest.get('version')}, this Flowloom reads {VERSION}: "
            "compile the model again"
        )
    if manifest.get("sha256") != manifest_digest(manifest):
        raise ArtifactError(f"{path} is damaged: compile the model again")
    read.string(manifest, "target", str(path))
    read.as_object(manifest.get("requirements"), f"{path}: requirements")
    files = read.as_object(manifest.get("files"), f"{path}: files")
    if missing := {SCHEDULE, KERNELS_FILE, WEIGHTS} - files.keys():
        raise ArtifactError(f"{path} has no hash of {', '.join(sorted(missing))}")
    for name, value in files.items():
        _check_entry(name, value, f"{path}: files.{name}")
    return manifest


def _check_entry(name: str, value: object, place: str) -> None:
    """Raise ArtifactError unless an entry is of a file of an artifact, with its size and digest."""
    if not _NAMES.fullmatch(name):
        raise ArtifactError(f"{place} is not a file of an artifact")
    entry = read.as_object(value, place)
    read.natural(entry.get("bytes"), f"{place}.bytes")
    read.string(entry, "sha256", place)


def _verify(path: Path, nbytes: int, sha256: str) -> None:
    try:
        size = path.stat().st_size
        if size != nbytes:
            raise ArtifactError(f"{path} has {size} bytes and was written with {nbytes}")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    if found != sha256:
        raise ArtifactError(f"{path} was changed after it was written: compile the model again")


def _verified(place: Path, name: str, files: Mapping[str, Any]) -> bytes:
    """The content of a file; raises ArtifactError if the manifest does not vouch for it."""
    if name not in files:
        raise ArtifactError(f"{place / MANIFEST} has no hash of {name}: compile the model again")
    return (place / name).read_bytes()


def _kernels(place: Path, files: Mapping[str, Any]) -> dict[str, KernelSpec]:
    """Every kernel of the table by name, with its code and source."""
    kernels: dict[str, KernelSpec] = {}
    for entry in read_kernels((place / KERNELS_FILE).read_bytes(), KERNELS_FILE):
        name = entry.kernel.name
        if name in kernels:
            raise ArtifactError(f"{KERNELS_FILE} has two kernels '{name}'")
        source = _verified(place, entry.source, files).decode() if entry.source else ""
        code = _verified(place, entry.code, files)
        kernels[name] = replace(entry.kernel, code=code, source=source)
    return kernels
