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
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from compiler.artifact.choice_json import choice_from_json, choice_to_json
from compiler.artifact.manifest import (
    ARTIFACT_MANIFEST,
    KERNELS_FILE,
    LIBRARY,
    MODEL_FILE,
    PROGRAM_MANIFEST,
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
from compiler.schedule.kernels import KernelSpec, Launch, Operand
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
    contents = {SCHEDULE: to_json(artifact.schedule).encode(), **kernel_files(artifact.kernels)}
    if artifact.library:
        contents[LIBRARY] = artifact.library
    files = write_contents(directory, contents, artifact.weights, durable)
    entries: dict[str, Any] = {"target": artifact.target, "requirements": artifact.requirements}
    if artifact.choice is not None:
        entries["choice"] = choice_to_json(artifact.choice)
    if artifact.tuning is not None:
        entries["tuning"] = asdict(artifact.tuning)
    if artifact.semantics is not None:
        entries["semantics"] = dict(artifact.semantics)
    sealed = sealed_contents(certificate.digest, files)
    ARTIFACT_MANIFEST.write(directory, entries, files, sealed)


def kernel_files(kernels: Mapping[str, KernelSpec]) -> dict[str, bytes]:
    """The table of kernels, their code and their sources, by the names of their files."""
    # Names of files depend on no kernel's name.
    table: list[dict[str, object]] = []
    codes: dict[str, bytes] = {}
    for position, kernel in enumerate(kernels.values()):
        code, source = (f"kernels/{position:04d}.{end}" for end in SUFFIXES[kernel.language])
        codes[code] = kernel.code
        if kernel.source:
            codes[source] = kernel.source.encode()
        named = {"code": code, "source": source if kernel.source else ""}
        table.append(kernel_table(kernel) | named)
    text = json.dumps(table, indent=1, default=str) + "\n"  # an extent over symbols is its text
    return {KERNELS_FILE: text.encode(), **codes}


def write_contents(
    directory: Path, contents: Mapping[str, bytes], weights: Mapping[str, Array], durable: bool
) -> dict[str, Any]:
    """Write files and weights to a new directory; the entries of all in the manifest."""
    (directory / "kernels").mkdir()
    files = {
        name: write_hashed(directory / name, lambda write, content=content: write(content), durable)
        for name, content in contents.items()
    }
    files[WEIGHTS] = write_hashed(
        directory / WEIGHTS, lambda write: write_weights(write, weights), durable
    )
    return files


def sealed_contents(certified: str, files: Mapping[str, Any]) -> dict[str, str]:
    """The digests under the seal: of the schedule, all kernels, the weights and the library.

    `certified` is the digest of the certificate.
    """
    large = {name: files[name]["sha256"] for name in (WEIGHTS, LIBRARY) if name in files}
    return {"schedule and kernels": certified, **large}


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
    manifest, contents = read_contents(folder, vouch)
    files: Mapping[str, Any] = manifest["files"]
    try:
        kernels = read_kernels(contents)
        schedule = from_json(contents[SCHEDULE].decode())
        # Hashes can be made anew for any content: races and misfits are looked for again.
        certificate = certified(schedule, kernels)
        if library := contents.get(LIBRARY, b""):
            check_library(library, certificate.digest)
    except (ValueError, ArtifactError, KernelError, ScheduleError) as error:
        raise ArtifactError(f"{folder} holds no valid schedule and kernels: {error}") from error
    sealed = sealed_contents(certificate.digest, files)
    ARTIFACT_MANIFEST.check_seal(folder, manifest, sealed)
    recorded = manifest.get("choice")
    choice = (
        None if recorded is None else choice_from_json(recorded, f"{folder / MANIFEST}: choice")
    )
    check_host(folder, manifest, check)
    weights = read_placed(folder, files, place)
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
        tuning=None
        if manifest.get("tuning") is None
        else read.checked_record(TuningRecord, manifest["tuning"], f"{folder / MANIFEST}: tuning"),
        library=library,
        certificate=certificate,
        semantics=read_semantics(manifest, folder),
    )


def read_contents(folder: Path, vouch: Vouch) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest of an artifact and the contents of all its files but the weights, by name."""
    manifest = _manifest(folder, vouch)
    contents = {
        name: read_checked(folder / name, entry, ARTIFACT_MANIFEST.remedy)
        for name, entry in manifest["files"].items()
        if name != WEIGHTS
    }
    return manifest, contents


def check_host(
    folder: Path, manifest: Mapping[str, Any], check: Callable[[str, Any], None]
) -> None:
    """Let `check(target, requirements)` refuse an artifact; ArtifactError where it fails."""
    try:
        check(manifest["target"], manifest["requirements"])
    except FlowloomError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{folder / MANIFEST} has no valid requirements of the target '{manifest['target']}'"
            f" ({error!r}): compile the model again"
        ) from error


def read_placed(folder: Path, files: Mapping[str, Any], place: Placing) -> dict[str, Array]:
    """The weights of an artifact, as they were written, where `place` puts them."""
    with ThreadPoolExecutor(1) as pool:  # to hash the weights takes as long as to copy them
        remedy = ARTIFACT_MANIFEST.remedy
        unchanged = pool.submit(check_unchanged, folder / WEIGHTS, files[WEIGHTS], remedy)
        try:
            return read_weights(folder / WEIGHTS, place)
        finally:
            unchanged.result()


def read_semantics(manifest: Mapping[str, Any], folder: Path) -> dict[str, str] | None:
    """The recorded choices by rule; ArtifactError for a way that is neither of the two."""
    where = f"{folder / MANIFEST}: semantics"
    if "semantics" not in manifest:
        return None
    ways = read.as_object(manifest["semantics"], where)
    return {rule: read.checked_one_of(way, f"{where}.{rule}", WAYS) for rule, way in ways.items()}


def _manifest(folder: Path, vouch: Vouch) -> dict[str, Any]:
    if format_in(folder) is not ARTIFACT_MANIFEST:
        PROGRAM_MANIFEST.read(folder, vouch)  # of an older format no remedy below works
        segments = folder / SEGMENTS_FOLDER
        remedy = (
            f"name the artifact of one of its compiled segments, which are in {segments}"
            if segments.is_dir()
            else "it has no compiled segment; where its inputs have open sizes, compile"
            f" {folder / MODEL_FILE} with the sizes of its inputs (--input-shape), and name what"
            " that saves"
        )
        raise ArtifactError(f"{folder} is a dynamic module: {remedy}")
    path = folder / MANIFEST
    manifest = ARTIFACT_MANIFEST.read(folder, vouch)
    read.string(manifest, "target", str(path))
    read.as_object(manifest.get("requirements"), f"{path}: requirements")
    return manifest


def read_kernels(contents: Mapping[str, bytes]) -> dict[str, KernelSpec]:
    """Every kernel of the table by name, with its code and source; `contents` are files by name.

    Raises ArtifactError that names the place of what is wrong.
    """
    table = read.parse_json(contents[KERNELS_FILE], KERNELS_FILE)
    kernels: dict[str, KernelSpec] = {}
    for spec in read.checked_items(table, f"{KERNELS_FILE}.kernels", partial(_kernel, contents)):
        if spec.name in kernels:
            raise ArtifactError(f"{KERNELS_FILE} has two kernels '{spec.name}'")
        kernels[spec.name] = spec
    return kernels


def _kernel(contents: Mapping[str, bytes], value: object, path: str) -> KernelSpec:
    def code(value: object, path: str) -> bytes:
        file = read.text(value, path)
        if file not in contents:
            raise ArtifactError(f"{MANIFEST} has no hash of {file}: compile the model again")
        return contents[file]

    def source(value: object, path: str) -> str:
        return code(value, path).decode() if read.text(value, path) else ""

    listed = read.as_object(value, path).get("symbols", [])
    symbols = read.checked_items(listed, f"{path}.symbols", read.checked_symbol)
    extent = read.extents_over({symbol.name: symbol for symbol in symbols})
    extents = partial(read.checked_items, item=extent)
    operand = partial(read.checked_record, Operand, dtype=read.dtype, shape=extents)
    operands = partial(read.checked_items, item=operand)
    grid = partial(read.checked_tuple, item=extent, size=3)
    launch = partial(read.checked_record, Launch, grid=grid)
    kernel = read.checked_record(
        KernelSpec,
        value,
        path,
        code=code,
        source=source,
        launches=partial(read.checked_items, item=launch),
        workspaces=extents,
        reads=operands,
        writes=operands,
        symbols=partial(read.checked_items, item=read.checked_symbol),
    )
    for launched in kernel.launches:
        # A name ends by a zero in an object's table of strings; a GPU's code may be compressed.
        name = launched.symbol.encode() + b"\0"
        if kernel.language == "object" and name not in kernel.code:
            raise ArtifactError(f"{path}: its code has no function {launched.symbol!r}")
    return kernel
