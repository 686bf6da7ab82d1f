"""Reading of saved dynamic modules."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compiler.artifact.manifest import (
    MODEL_FILE,
    PROGRAM_MANIFEST,
    Vouch,
    check_program_files,
    program_segments,
)
from compiler.backends.policy import GraphPolicy
from compiler.driver.settings import Settings
from compiler.frontend.semantics import Semantics
from compiler.frontend.semantics.choice import OTHER_RULES
from compiler.kernels.building import KernelCache
from compiler.program.compiling import SegmentCompiler
from compiler.program.model import DynamicModule
from compiler.program.reading import read_program
from compiler.program.saving import SavedSegment
from compiler.program.segment import SegmentSplit
from compiler.program.signature import input_symbols


def load_program(directory: Path, options: Mapping[str, Any], vouch: Vouch) -> DynamicModule:
    """A saved dynamic module, whose segments are loaded when a run first needs them.

    `vouch` says which programs to trust; a segment is trusted if its program is, and lists it.
    Raises ArtifactError for a missing or damaged file.
    """
    manifest = PROGRAM_MANIFEST.read(directory, vouch)
    check_program_files(directory, manifest)
    policy = GraphPolicy.parse(manifest["graphs"])
    options = {**policy.executor_options, **options}
    settings = replace(
        Settings(manifest["target"], manifest["pipeline"], cache=KernelCache()),
        check_indices=manifest["check_indices"],
        graphs=policy,
        semantics=Semantics.parse({OTHER_RULES: "onnx", **manifest["semantics"]}),
        chosen=manifest["pipeline"] is not None,
    )
    path = directory / MODEL_FILE
    shapes = manifest["input_shapes"]
    model = read_program(path, shapes, settings.check_indices, settings.semantics)
    symbols = input_symbols(model.inputs)
    segments = program_segments(directory, manifest).items()
    saved = {folder.name: SavedSegment(folder, digest) for folder, digest in segments}
    module = DynamicModule(model, SegmentCompiler(model.context, settings, options, symbols, saved))
    alone = {int(node): why for node, why in manifest["on_host"].items()}
    module.body.refine(SegmentSplit(alone, frozenset(manifest["split_at"])))
    return module
