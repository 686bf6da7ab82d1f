"""The saved form of a dynamic module: a directory of the model and of every compiled segment.

program.json (format version, options, and the SHA-256 of the model), model.onnx with its weights,
and segments/, whose directories are artifacts (`compiler.export.artifact`).
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import onnx

from compiler.errors import ArtifactError
from compiler.export.replacing import replacing
from compiler.module import Module

PROGRAM_FORMAT = "flowloom-program"
PROGRAM_VERSION = 1
"""Incremented whenever a reader of the old version would misread the new one."""

PROGRAM_FILE = "program.json"
MODEL_FILE = "model.onnx"
SEGMENTS_FOLDER = "segments"

_LARGEST_INLINE = 1 << 30
"""The bytes of a model above which its weights are in another file."""


@dataclass(frozen=True)
class SavedProgram:
    """A dynamic module as it is saved: the model with its weights, and modules by digest.

    `options` are entries of the manifest.
    """

    model: onnx.ModelProto
    modules: Mapping[str, Module]
    options: Mapping[str, Any]


def save_program(program: SavedProgram, directory: str | os.PathLike[str]) -> None:
    """Write a program, replacing an older one atomically.

    Raises ArtifactError, and changes nothing, if that fails.
    """
    place = Path(os.path.abspath(directory))
    if os.path.lexists(place) and not is_program(place) and not _is_empty(place):
        raise ArtifactError(f"{place} exists and is not a program: choose another directory")
    with replacing(place) as new:
        (new / SEGMENTS_FOLDER).mkdir(parents=True)
        _write_model(program.model, new / MODEL_FILE)
        for digest, module in program.modules.items():
            module.save(new / SEGMENTS_FOLDER / digest)
        head = {
            "format": PROGRAM_FORMAT,
            "version": PROGRAM_VERSION,
            "sha256": file_digest(new / MODEL_FILE),
        }
        manifest = {**head, **program.options}
        (new / PROGRAM_FILE).write_text(json.dumps(manifest, indent=1) + "\n")


def _is_empty(place: Path) -> bool:
    return place.is_dir() and not any(place.iterdir())


def is_program(directory: Path) -> bool:
    """Whether a directory holds a saved dynamic module."""
    return (directory / PROGRAM_FILE).is_file()


def _write_model(model: onnx.ModelProto, path: Path) -> None:
    large = model.ByteSize() > _LARGEST_INLINE
    save = cast(Any, onnx).save
    save(model, path, save_as_external_data=large, location="model.weights")


def file_digest(path: Path) -> str:
    """The SHA-256 of a file; raises ArtifactError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
