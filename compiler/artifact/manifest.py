"""The manifest of a saved directory: a JSON file that vouches for all others.

It has the format and its version, the size and SHA-256 of every other file, a SHA-256 of the rest
of itself (`sha256`), and a `seal`. Hashes of files are of bytes as they were written, and any tool
that edits a file can make them anew. The seal is of what the program had in memory when it saved.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from compiler.errors import ArtifactError
from compiler.support.caches import check_regular, read_regular
from compiler.verify import checked_json as read

Vouch = Callable[[Path, bytes], None]
"""Raises ArtifactError unless a manifest, by its path and its bytes, is one to trust."""

MAKE_ONE = "`flowloom compile MODEL -o DIR`"
COMPILE_AGAIN = f"compile the model again with this one ({MAKE_ONE}, or compile and save)"
"""The remedy for directories that another version wrote."""

SELF_DIGEST = "sha256"
SEAL = "seal"
FILE_LIST = "files"
OWN_ENTRIES = "entries of the manifest"
"""The name of a manifest's own entries in its seal."""


@dataclass(frozen=True)
class ManifestFormat:
    """A kind of saved directory, by its manifest.

    `names` is a pattern of the files that it may list, `required` those that it must list; `remedy`
    ends messages about a wrong one.
    """

    file: str
    format: str
    version: int
    what: str
    names: re.Pattern[str]
    required: frozenset[str]
    remedy: str

    @property
    def head(self) -> re.Pattern[bytes]:
        """How a manifest of this kind begins, whole or truncated."""
        return re.compile(rb'\{\s*"format":\s*"%b"' % self.format.encode())

    @property
    def article(self) -> str:
        """The kind with its article."""
        return f"{'an' if self.what[0] in 'aeiou' else 'a'} {self.what}"

    def write(
        self,
        folder: Path,
        entries: Mapping[str, Any],
        files: Mapping[str, Any],
        contents: Mapping[str, str],
    ) -> None:
        """Write the manifest, with its own entries and those of the other files, by name.

        `contents` are the digests that the seal has, by the name of each content.
        """
        manifest = {"format": self.format, "version": self.version, **entries, FILE_LIST: {**files}}
        manifest[SEAL] = manifest_seal(manifest, contents)
        text = json.dumps({**manifest, SELF_DIGEST: manifest_digest(manifest)}, indent=1) + "\n"
        write_hashed(folder / self.file, lambda write: write(text.encode()))

    def read(self, folder: Path, vouch: Vouch) -> dict[str, Any]:
        """The manifest, with an entry for each file that it lists; raises ArtifactError."""
        path = folder / self.file
        try:
            content = read_regular(path)
        except OSError as error:
            raise ArtifactError(
                f"no {self.what} in {folder}: {self.file}: {error.strerror}; {MAKE_ONE} makes one"
            ) from error
        vouch(path, content)
        try:
            parsed: Any = json.loads(content)
            manifest = cast(dict[str, Any], parsed) if isinstance(parsed, dict) else None
            digest = "" if manifest is None else manifest_digest(manifest)
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"{path} is damaged ({error}): {self.remedy}") from error
        if manifest is None:
            raise ArtifactError(f"{path} is not the manifest of a Flowloom {self.what}")
        return self._checked(path, manifest, digest)

    def _checked(self, path: Path, manifest: dict[str, Any], digest: str) -> dict[str, Any]:
        """The manifest, if it is whole, by the digest that it should have, and of this version."""
        if manifest.get("format") != self.format:
            raise ArtifactError(f"{path} is not the manifest of a Flowloom {self.what}")
        version = manifest.get("version")
        if type(version) is not int:
            raise ArtifactError(
                f"{path} has the format version {version!r}; this Flowloom reads {self.version}:"
                f" {COMPILE_AGAIN}"
            )
        if version != self.version:
            age = "older" if version < self.version else "newer"
            raise ArtifactError(
                f"{path.parent} was saved by {'an' if age == 'older' else 'a'} {age} Flowloom"
                f" (format version {version}; this one reads {self.version}): {COMPILE_AGAIN}"
            )
        if manifest.get(SELF_DIGEST) != digest:
            raise ArtifactError(f"{path} is damaged: {self.remedy}")
        read.as_object(manifest.get(SEAL), f"{path}: {SEAL}")
        files = read.as_object(manifest.get(FILE_LIST), f"{path}: {FILE_LIST}")
        if missing := self.required - files.keys():
            raise ArtifactError(f"{path} has no hash of {', '.join(sorted(missing))}")
        for name, value in files.items():
            if not self.names.fullmatch(name):
                raise ArtifactError(f"{path}: {FILE_LIST}.{name} is not a file of {self.article}")
            entry = read.as_object(value, f"{path}: {FILE_LIST}.{name}")
            read.natural(entry.get("bytes"), f"{path}: {FILE_LIST}.{name}.bytes")
            read.string(entry, "sha256", f"{path}: {FILE_LIST}.{name}")
        return manifest

    def check_seal(
        self, folder: Path, manifest: Mapping[str, Any], contents: Mapping[str, str]
    ) -> None:
        """Raise ArtifactError, naming the content, unless all have their digest in the seal."""
        seal = manifest[SEAL]
        present = manifest_seal(manifest, contents)
        different = sorted(n for n in {*seal, *present} if seal.get(n) != present.get(n))
        if different:
            raise ArtifactError(
                f"{folder} is not as it was saved, by the seal in {self.file}:"
                f" {', '.join(different)}; {self.remedy}"
            )


SCHEDULE = "schedule.json"
KERNELS_FILE = "kernels/kernels.json"
WEIGHTS = "weights.safetensors"
LIBRARY = "library.so"

ARTIFACT_MANIFEST = ManifestFormat(
    file="manifest.json",
    format="flowloom-artifact",
    version=5,
    what="artifact",
    names=re.compile(
        rf"{SCHEDULE}|{KERNELS_FILE}|{WEIGHTS}|{LIBRARY}"
        r"|kernels/\d{4,}\.(o|cubin|hsaco|zip|cu|hip)"
    ),
    required=frozenset((SCHEDULE, KERNELS_FILE, WEIGHTS)),
    remedy="compile the model again",
)
"""Of `compiler.artifact.artifact`; versions grow whenever an older reader would misread it."""

MODEL_FILE = "model.onnx"
MODEL_WEIGHTS = "model.weights"
SEGMENTS_FOLDER = "segments"

_SEGMENT = re.compile(rf"{SEGMENTS_FOLDER}/([0-9a-f-]+)/{ARTIFACT_MANIFEST.file}")
"""The manifest of a segment, an artifact in a directory named by the digest of its request."""

PROGRAM_MANIFEST = ManifestFormat(
    file="program.json",
    format="flowloom-program",
    version=5,
    what="program",
    names=re.compile(rf"{MODEL_FILE}|{MODEL_WEIGHTS}|{_SEGMENT.pattern}"),
    required=frozenset((MODEL_FILE,)),
    remedy="save the module again",
)
"""Of `compiler.program.saving`."""


def check_program_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Raise ArtifactError unless a program's model and its segments' manifests are as saved."""
    for name, entry in manifest[FILE_LIST].items():
        check_unchanged(folder / name, entry, PROGRAM_MANIFEST.remedy)
    digests = {name: entry["sha256"] for name, entry in manifest[FILE_LIST].items()}
    PROGRAM_MANIFEST.check_seal(folder, manifest, digests)


def program_segments(folder: Path, manifest: Mapping[str, Any]) -> dict[Path, str]:
    """The directory of each segment that a program lists, and the SHA-256 of its manifest."""
    entries = ((_SEGMENT.fullmatch(name), entry) for name, entry in manifest[FILE_LIST].items())
    return {
        folder / SEGMENTS_FOLDER / match[1]: entry["sha256"] for match, entry in entries if match
    }


def format_in(folder: Path) -> ManifestFormat:
    """The format of a saved directory, which is an artifact where nothing says otherwise."""
    return PROGRAM_MANIFEST if (folder / PROGRAM_MANIFEST.file).is_file() else ARTIFACT_MANIFEST


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of a manifest's other entries, which its entry `sha256` must be."""
    return _digest({key: value for key, value in manifest.items() if key != SELF_DIGEST})


def manifest_seal(manifest: Mapping[str, Any], contents: Mapping[str, str]) -> dict[str, str]:
    """A digest of each content by its name, and that of a manifest's own entries.

    None of these is the hash of a file, which a tool could replace wherever it occurs.
    """
    entries = {k: v for k, v in manifest.items() if k not in (SELF_DIGEST, SEAL, FILE_LIST)}
    sealed = {OWN_ENTRIES: entries, **contents}
    return {name: _digest([name, content]) for name, content in sealed.items()}


def _digest(data: Any) -> str:
    plain = json.loads(json.dumps(data))  # keys as they are read: all of them strings
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def write_hashed(
    path: Path, produce: Callable[[Callable[[Any], Any]], Any], durable: bool = True
) -> dict[str, Any]:
    """Write a file, to the disk if `durable`, hashing on the way; its entry in the manifest."""
    digest = hashlib.sha256()
    with path.open("wb") as file:

        def write(data: Any) -> None:
            digest.update(data)
            file.write(data)

        produce(write)
        file.flush()
        if durable:
            # Else a crash soon after the rename could leave files without their content.
            os.fsync(file.fileno())
        return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def file_entry(path: Path) -> dict[str, Any]:
    """The entry of an existing file; raises ArtifactError if it cannot be read."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            return {
                "bytes": os.fstat(file.fileno()).st_size,
                "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
            }
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error


def check_unchanged(path: Path, entry: Mapping[str, Any], remedy: str) -> None:
    """Raise ArtifactError unless a file is the one that was written."""
    try:
        _check_size(path, path.stat().st_size, entry)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    _check_digest(path, file_entry(path)["sha256"], entry, remedy)


def read_checked(path: Path, entry: Mapping[str, Any], remedy: str) -> bytes:
    """The bytes of a file, which are those that were written, or ArtifactError."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    _check_size(path, len(content), entry)
    _check_digest(path, hashlib.sha256(content).hexdigest(), entry, remedy)
    return content


def _check_size(path: Path, size: int, entry: Mapping[str, Any]) -> None:
    if size != entry["bytes"]:
        raise ArtifactError(f"{path} has {size} bytes and was written with {entry['bytes']}")


def _check_digest(path: Path, digest: str, entry: Mapping[str, Any], remedy: str) -> None:
    if digest != entry["sha256"]:
        raise ArtifactError(f"{path} was changed after it was written: {remedy}")


def trust_all(path: Path, content: bytes) -> None:
    """Trusts every manifest: a `Vouch`."""


def with_sha256(digest: str) -> Vouch:
    """Trusts the manifest of one SHA-256, which is that of another, trusted file."""

    def vouch(path: Path, content: bytes) -> None:
        if hashlib.sha256(content).hexdigest() != digest:
            raise ArtifactError(f"{path} was changed after it was written: save the module again")

    return vouch
