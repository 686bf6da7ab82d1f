"""The saved form of a dynamic module: a directory of the model and of every compiled segment.

program.json (`compiler.artifact.manifest`; options), model.onnx with its weights, and segments/,
whose directories are artifacts (`compiler.artifact.artifact`): program.json has the SHA-256 of
their manifests.
"""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import onnx
from onnx import numpy_helper

from compiler.artifact.manifest import (
    ARTIFACT_MANIFEST,
    MODEL_FILE,
    MODEL_WEIGHTS,
    PROGRAM_MANIFEST,
    SEGMENTS_FOLDER,
    file_entry,
)
from compiler.artifact.module import Module
from compiler.artifact.program_options import ProgramOptions
from compiler.artifact.replaceable import check_replaceable
from compiler.artifact.replacing import replacing
from compiler.frontend.tensors import write_outside
from compiler.program.reading import ReadModel
from compiler.program.symbolic import SymbolicSegment
from compiler.program.symbolic_saving import save_segment

_LARGEST_INLINE = 1 << 30
"""The bytes of a model above which its weights are in another file: protobuf ends at 2 GiB."""

_LEAST_OUTSIDE = 1 << 10
"""The bytes of a weight that is written to the file next to its model."""


@dataclass(frozen=True, slots=True)
class SavedSegment:
    """The folder of an artifact that was written, and the SHA-256 of its manifest."""

    directory: Path
    manifest: str


@dataclass(frozen=True)
class SavedProgram:
    """A dynamic module as it is saved: the model, and modules by digest.

    Segments for all sizes are `symbolic`, by the names of their folders. `options` are entries
    of the manifest.
    """

    model: ReadModel
    modules: Mapping[str, Module]
    symbolic: Mapping[str, SymbolicSegment]
    options: ProgramOptions


def save_program(program: SavedProgram, directory: str | os.PathLike[str]) -> None:
    """Write a program, replacing an older one atomically.

    Raises ArtifactError, and changes nothing, if that fails, and ModelError likewise if a file of
    the model's data was written to since it was read.
    """
    folder = Path(os.path.abspath(directory))
    check_replaceable(folder)
    with replacing(folder) as new:
        new.mkdir(parents=True)
        _write_model(program.model, new)
        names = [name for name in (MODEL_FILE, MODEL_WEIGHTS) if (new / name).exists()]
        if program.modules or program.symbolic:  # an empty folder is not something that was saved
            (new / SEGMENTS_FOLDER).mkdir()
        for digest, module in program.modules.items():
            module.save(new / SEGMENTS_FOLDER / digest)
            names.append(f"{SEGMENTS_FOLDER}/{digest}/{ARTIFACT_MANIFEST.file}")
        for name, segment in program.symbolic.items():
            save_segment(segment, new / SEGMENTS_FOLDER / name)
            names.append(f"{SEGMENTS_FOLDER}/{name}/{ARTIFACT_MANIFEST.file}")
        files = {name: file_entry(new / name) for name in names}
        digests = {name: entry["sha256"] for name, entry in files.items()}
        PROGRAM_MANIFEST.write(new, asdict(program.options), files, digests)


def _write_model(model: ReadModel, folder: Path) -> None:
    """Write a model, whose weights are in a file next to it if it is large, each by itself.

    All of them together, and any of them, may be larger than a protobuf.
    """
    whole = onnx.ModelProto()
    whole.CopyFrom(model.proto)
    size = sum(model.graph.constants[name].nbytes for name in model.weights)
    large = whole.ByteSize() + size > _LARGEST_INLINE
    with (folder / MODEL_WEIGHTS).open("wb") if large else nullcontext() as file:
        for name, weight in model.weights_now():
            tensor = whole.graph.initializer.add()
            if file is None or weight.nbytes < _LEAST_OUTSIDE or weight.dtype.hasobject:
                tensor.CopyFrom(numpy_helper.from_array(weight, name))
            else:
                write_outside(tensor, name, weight, file)
    cast(Any, onnx).save(whole, folder / MODEL_FILE)
