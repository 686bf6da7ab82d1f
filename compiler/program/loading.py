"""Reading of saved dynamic modules."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compiler.backends.policy import GraphPolicy
from compiler.errors import ArgumentError, ArtifactError
from compiler.frontend.semantics import Semantics
from compiler.frontend.semantics.choice import OTHER_RULES
from compiler.kernels import KernelCache
from compiler.program.buckets import Buckets
from compiler.program.compiling import SegmentCompiler
from compiler.program.model import DynamicModule
from compiler.program.reading import read_program
from compiler.program.saving import (
    MODEL_FILE,
    PROGRAM_FILE,
    PROGRAM_FORMAT,
    PROGRAM_VERSION,
    SEGMENTS_FOLDER,
    file_digest,
)
from compiler.program.segment import SegmentSplit
from compiler.settings import Settings


def load_program(directory: Path, options: Mapping[str, Any]) -> DynamicModule:
    """A saved dynamic module, whose segments are loaded when a run first needs them.

    Raises ArtifactError for a missing or damaged file.
    """
    manifest = _manifest(directory)
    if file_digest(directory / MODEL_FILE) != manifest["sha256"]:
        raise ArtifactError(f"{directory / MODEL_FILE} is not the saved one: save the module again")
    policy = GraphPolicy.parse(manifest.get("graphs", "all"))
    options = {**policy.executor_options, **options}
    settings = replace(
        Settings(manifest["target"], manifest["pipeline"], cache=KernelCache()),
        check_indices=manifest["check_indices"],
        graphs=policy,
        semantics=_semantics(manifest, directory),
        chosen=manifest["pipeline"] is not None,
    )
    path, shapes = directory / MODEL_FILE, manifest["input_shapes"]
    found = read_program(path, shapes, settings.check_indices, settings.semantics)
    buckets = Buckets.of(manifest["buckets"], found.inputs)
    saved = {path.name: path for path in sorted((directory / SEGMENTS_FOLDER).iterdir())}
    module = DynamicModule(found, SegmentCompiler(found.context, settings, options, buckets, saved))
    module.body.refine(_division(manifest, len(found.graph.nodes), directory))
    return module


def _semantics(manifest: Mapping[str, Any], directory: Path) -> Semantics:
    """The choices of the compiled module; without any it has the ONNX text, and no warnings."""
    try:
        return Semantics.parse({OTHER_RULES: "onnx", **manifest.get("semantics", {})})
    except (ArgumentError, ValueError, TypeError) as error:
        raise ArtifactError(
            f"{directory / PROGRAM_FILE}: {error}; save the module again"
        ) from error


def _division(manifest: Mapping[str, Any], nodes: int, directory: Path) -> SegmentSplit:
    """How the saved program was divided; none in an older one, whose runs find it again."""
    try:
        alone = {int(node): str(why) for node, why in manifest.get("on_host", {}).items()}
        split_at = frozenset(map(str, manifest.get("split_at", ())))
    except (ValueError, TypeError, AttributeError) as error:
        raise ArtifactError(
            f"{directory / PROGRAM_FILE} is damaged ({error}): save the module again"
        ) from error
    if not all(0 <= node < nodes for node in alone):
        raise ArtifactError(
            f"{directory / PROGRAM_FILE} names a node that {MODEL_FILE} has not: save the module"
            " again"
        )
    return SegmentSplit(alone, split_at)


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / PROGRAM_FILE
    try:
        manifest = json.loads(path.read_text())
        version = manifest["version"] if manifest["format"] == PROGRAM_FORMAT else None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ArtifactError(f"{path} is damaged ({error}): save the module again") from error
    if version != PROGRAM_VERSION:
        raise ArtifactError(
            f"{path} has version {version}, not {PROGRAM_VERSION}: save the module again"
        )
    return manifest
