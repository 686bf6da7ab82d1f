"""The saved form of a compiled module: a directory of plain files listed in a manifest.

manifest.json (`compiler.artifact.manifest`; target, requirements, choice, tuning), schedule.json,
kernels/ (one file a kernel, and kernels.json), weights.safetensors, and library.so for targets that
run through the C interface of an exported project. The seal of the manifest covers the certificate
of the schedule and its kernels, the weights, the library and the manifest's own entries; each
kernel's seal is in its code (`compiler.verify.seals`).
"""

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from compiler.artifact.choice_json import choice_from_json, choice_to_json, tuning_from_json
from compiler.artifact.manifest import (
    ARTIFACT_MANIFEST,
    KERNELS_FILE,
    LIBRARY,
    MODEL_FILE,
    SCHEDULE,
    SEGMENTS_FOLDER,
    WEIGHTS,
    Vouch,
    check_unchanged,
    format_in,
    read_checked,
    trust_all,
    write_hashed,
)
from compiler.artifact.replaceable import check_replaceable
from compiler.artifact.replacing import replacing
from compiler.artifact.weights import Placing, in_one_block, read_weights, write_weights
from compiler.backends.base import Array
from compiler.backends.memory import check_weights
from compiler.errors import (
    ArtifactError,
    FlowloomError,
    KernelError,
    ScheduleError,
    ShapeError,
)
from compiler.schedule.choices import Choice, TuningRecord
from compiler.schedule.kernels import Footprint, KernelSpec, Launch, Operand
from compiler.schedule.tasks import Schedule
from compiler.support.arguments import WAYS
from compiler.verify import checked_json as read
from compiler.verify.certificate import Certificate, certified
from compiler.verify.schedule_json import from_json, to_json
from compiler.verify.seals import check_library, kernel_table

SUFFIXES = {
    "object": ("o", ""),
    "cuda": ("cubin", "cu"),
    "hip": ("o", "hip"),
    "emu": ("zip", "cu"),
}
"""File name endings of kernels' code and of its source (none on the CPU), by language."""


@dataclass(frozen=True)
class KernelEntry:
    """A kernel without its code and source, and the files that hold them (no source: empty)."""

    kernel: KernelSpec
    code: str
    source: str


def _entry(value: object, path: str) -> KernelEntry:
    entry = read.as_object(value, path)
    language = read.checked_one_of(entry.get("language"), SUFFIXES, f"{path}.language")
    spec = KernelSpec(
        name=read.string(entry, "name", path),
        language=cast(Literal["object", "cuda", "hip", "emu"], language),
        code=b"",
        launches=read.checked_sequence(entry, "launches", path, _launch),
        packings=read.checked_sequence(entry, "packings", path, read.text),
        workspaces=read.checked_sequence(entry, "workspaces", path, read.natural),
        flops=read.natural(entry.get("flops"), f"{path}.flops"),
        traffic_bytes=read.natural(entry.get("traffic_bytes"), f"{path}.traffic_bytes"),
        serial_ns=read.natural(entry.get("serial_ns", 0), f"{path}.serial_ns"),
        estimated_ns=read.natural(entry.get("estimated_ns", 0), f"{path}.estimated_ns"),
        reads=read.checked_sequence(entry, "reads", path, _operand),
        writes=read.checked_sequence(entry, "writes", path, _operand),
        footprint=_footprint(entry.get("footprint"), f"{path}.footprint"),
    )
    return KernelEntry(spec, read.string(entry, "code", path), read.string(entry, "source", path))


def _operand(value: object, path: str) -> Operand:
    entry = read.as_object(value, path)
    shape = read.checked_sequence(entry, "shape", path, read.natural)
    return Operand(read.dtype(entry.get("dtype"), f"{path}.dtype"), shape)


def _footprint(value: object, path: str) -> Footprint:
    entry = read.as_object(value, path)
    return Footprint(
        read_launches=read.checked_sequence(entry, "read_launches", path, read.text),
        accesses=read.natural(entry.get("accesses"), f"{path}.accesses"),
        by_solver=read.natural(entry.get("by_solver"), f"{path}.by_solver"),
        by_enumeration=read.natural(entry.get("by_enumeration"), f"{path}.by_enumeration"),
        undecided=read.checked_sequence(entry, "undecided", path, read.text),
    )


def _launch(value: object, path: str) -> Launch:
    entry = read.as_object(value, path)
    return Launch(
        symbol=read.string(entry, "symbol", path),
        args=read.checked_sequence(entry, "args", path, read.natural),
        grid=_triple(entry, "grid", path),
        block=_triple(entry, "block", path),
        shared_bytes=read.natural(entry.get("shared_bytes"), f"{path}.shared_bytes"),
        registers=read.natural(entry.get("registers"), f"{path}.registers"),
        static_shared_bytes=read.natural(
            entry.get("static_shared_bytes"), f"{path}.static_shared_bytes"
        ),
        programmatic=read.boolean(entry.get("programmatic"), f"{path}.programmatic"),
        indirect=read.string(entry, "indirect", path),
    )


def _triple(entry: dict[str, object], key: str, path: str) -> tuple[int, int, int]:
    numbers = read.checked_sequence(entry, key, path, read.natural)
    if len(numbers) != 3:
        raise ArtifactError(f"{path}.{key} does not have three numbers")
    return numbers


MANIFEST = ARTIFACT_MANIFEST.file


@dataclass(frozen=True)
class Artifact:
    """All that a backend needs to run a compiled model, saved or not."""

    target: str
    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    weights: Mapping[str, Array]
    """The packed weights, by allocation name."""
    requirements: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The features that the code needs of its host; if empty, those of the target on this host."""
    choice: Choice | None = None
    """How the schedule and its execution mode were chosen, on targets where there is a choice."""
    tuning: TuningRecord | None = None
    """The kernels that were measured before they were built, if any were."""
    library: bytes = b""
    """The shared library of the whole module, for targets that run through one."""
    certificate: Certificate | None = None
    """That the schedule and the kernels were checked, if they were."""
    semantics: Mapping[str, str] | None = None
    """The choices between the ONNX text and onnxruntime, by rule; None where an older version
    recorded none."""


def save(artifact: Artifact, directory: str | os.PathLike[str], *, durable: bool = True) -> None:
    """Write an artifact to a temporary directory, then move it; an older artifact is replaced.

    One that is not `durable` is not waited for to reach the disk. Raises ArtifactError, with
    nothing changed, if `directory` is something else or cannot be written.
    """
    folder = Path(os.path.abspath(directory))
    check_replaceable(folder)
    with replacing(folder) as new:
        new.mkdir()
        _write_files(artifact, new, durable)


def _write_files(artifact: Artifact, directory: Path, durable: bool) -> None:
    certificate = certified(artifact.schedule, artifact.kernels, artifact.certificate)
    (directory / "kernels").mkdir()
    # Names of files depend on no kernel's name.
    table: list[dict[str, object]] = []
    codes: dict[str, bytes] = {}
    for position, kernel in enumerate(artifact.kernels.values()):
        code, source = (f"kernels/{position:04d}.{end}" for end in SUFFIXES[kernel.language])
        codes[code] = kernel.code
        if kernel.source:
            codes[source] = kernel.source.encode()
        named = {"code": code, "source": source if kernel.source else ""}
        table.append(kernel_table(kernel) | named)
    texts = {SCHEDULE: to_json(artifact.schedule), KERNELS_FILE: json.dumps(table, indent=1) + "\n"}
    contents = {name: text.encode() for name, text in texts.items()} | codes
    if artifact.library:
        contents[LIBRARY] = artifact.library
    files = {
        name: write_hashed(directory / name, lambda write, content=content: write(content), durable)
        for name, content in contents.items()
    }
    files[WEIGHTS] = write_hashed(
        directory / WEIGHTS, lambda write: write_weights(write, artifact.weights), durable
    )
    entries: dict[str, Any] = {"target": artifact.target, "requirements": artifact.requirements}
    if artifact.choice is not None:
        entries["choice"] = choice_to_json(artifact.choice)
    if artifact.tuning is not None:
        entries["tuning"] = asdict(artifact.tuning)
    if artifact.semantics is not None:
        entries["semantics"] = dict(artifact.semantics)
    ARTIFACT_MANIFEST.write(directory, entries, files, _sealed_contents(certificate, files))


def _sealed_contents(certificate: Certificate, files: Mapping[str, Any]) -> dict[str, str]:
    """The digests under the seal: of the schedule, all kernels, the weights and the library."""
    large = {name: files[name]["sha256"] for name in (WEIGHTS, LIBRARY) if name in files}
    return {"schedule and kernels": certificate.digest, **large}


def load(
    directory: str | os.PathLike[str],
    check: Callable[[str, Any], None],
    place: Placing = in_one_block,
    vouch: Vouch = trust_all,
) -> Artifact:
    """Read an artifact after verifying every file, the schedule, the kernels and the seal.

    `check(target, requirements)` is called before the weights are read, and may refuse them;
    `place` puts weights somewhere; `vouch` says which manifests to trust. Raises ArtifactError,
    naming the file, if any is missing, truncated, edited or of another format version.
    """
    folder = Path(directory)
    manifest = _manifest(folder, vouch)
    files: Mapping[str, Any] = manifest["files"]
    contents = {
        name: read_checked(folder / name, entry, ARTIFACT_MANIFEST.remedy)
        for name, entry in files.items()
        if name != WEIGHTS
    }
    try:
        kernels = _kernels(contents)
        schedule = from_json(contents[SCHEDULE].decode())
        certificate = certified(schedule, kernels)
        if library := contents.get(LIBRARY, b""):
            check_library(library, certificate.digest)
    except (ValueError, ArtifactError, KernelError, ScheduleError) as error:
        raise ArtifactError(f"{folder} holds no valid schedule and kernels: {error}") from error
    ARTIFACT_MANIFEST.check_seal(folder, manifest, _sealed_contents(certificate, files))
    recorded = manifest.get("choice")
    choice = (
        None if recorded is None else choice_from_json(recorded, f"{folder / MANIFEST}: choice")
    )
    try:
        check(manifest["target"], manifest["requirements"])
    except FlowloomError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{folder / MANIFEST} has no valid requirements of the target '{manifest['target']}'"
            f" ({error!r}): compile the model again"
        ) from error
    with ThreadPoolExecutor(1) as pool:  # to hash the weights takes as long as to copy them
        remedy = ARTIFACT_MANIFEST.remedy
        unchanged = pool.submit(check_unchanged, folder / WEIGHTS, files[WEIGHTS], remedy)
        try:
            weights = read_weights(folder / WEIGHTS, place)
        finally:
            unchanged.result()
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
        library=library,
        certificate=certificate,
        semantics=_semantics(manifest, folder),
    )


def _semantics(manifest: Mapping[str, Any], folder: Path) -> dict[str, str] | None:
    """The recorded choices by rule; ArtifactError for a way that is none of the two."""
    where = f"{folder / MANIFEST}: semantics"
    if "semantics" not in manifest:
        return None
    ways = read.as_object(manifest["semantics"], where)
    return {rule: read.checked_one_of(way, WAYS, f"{where}.{rule}") for rule, way in ways.items()}


def _manifest(folder: Path, vouch: Vouch) -> dict[str, Any]:
    if format_in(folder) is not ARTIFACT_MANIFEST:
        segments = folder / SEGMENTS_FOLDER
        remedy = (
            f"name the artifact of one of its compiled segments, which are in {segments}"
            if segments.is_dir()
            else f"it has no compiled segment; compile {folder / MODEL_FILE} with the sizes of its"
            " inputs (--input-shape), and name what that saves"
        )
        raise ArtifactError(f"{folder} is a dynamic module: {remedy}")
    path = folder / MANIFEST
    manifest = ARTIFACT_MANIFEST.read(folder, vouch)
    read.string(manifest, "target", str(path))
    read.as_object(manifest.get("requirements"), f"{path}: requirements")
    return manifest


def _kernels(contents: Mapping[str, bytes]) -> dict[str, KernelSpec]:
    """Every kernel of the table by name, with its code and source; `contents` are files by name."""
    kernels: dict[str, KernelSpec] = {}
    # The entries of a table; raises ArtifactError that names the place of what is wrong.
    for entry in read.checked_sequence(
        {"kernels": read.parse_json(contents[KERNELS_FILE], KERNELS_FILE)},
        "kernels",
        KERNELS_FILE,
        _entry,
    ):
        name = entry.kernel.name
        if name in kernels:
            raise ArtifactError(f"{KERNELS_FILE} has two kernels '{name}'")
        for file in (entry.code, *([entry.source] if entry.source else [])):
            if file not in contents:
                raise ArtifactError(f"{MANIFEST} has no hash of {file}: compile the model again")
        source = contents[entry.source].decode() if entry.source else ""
        kernels[name] = replace(entry.kernel, code=contents[entry.code], source=source)
    return kernels
