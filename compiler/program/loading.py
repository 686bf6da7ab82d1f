"""Reading of saved dynamic modules."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compiler.artifact.manifest import (
    MODEL_FILE,
    PROGRAM_MANIFEST,
    Vouch,
    program_segments,
)
from compiler.artifact.program_options import ProgramOptions, read_program_manifest
from compiler.backends.policy import GraphPolicy
from compiler.driver.settings import Settings
from compiler.errors import ArtifactError
from compiler.frontend.semantics import Semantics
from compiler.frontend.semantics.choice import OTHER_RULES
from compiler.kernels.building import KernelCache
from compiler.program.body import BodyGraph
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
    manifest, saved = read_program_manifest(directory, vouch)
    policy = GraphPolicy.parse(saved.graphs)
    options = {**policy.executor_options, **options}
    settings = replace(
        Settings(saved.target, saved.pipeline, cache=KernelCache()),
        check_indices=saved.check_indices,
        graphs=policy,
        # nodes without a choice were warned of when the model was compiled
        semantics=Semantics.parse({OTHER_RULES: "onnx", **saved.semantics}),
        chosen=saved.pipeline is not None,
    )
    path = directory / MODEL_FILE
    model = read_program(path, saved.input_shapes, settings.check_indices, settings.semantics)
    symbols = input_symbols(model.inputs)
    folders = program_segments(directory, manifest).items()
    segments = {folder.name: SavedSegment(folder, digest) for folder, digest in folders}
    compiler = SegmentCompiler(model.context, settings, options, symbols, segments)
    module = DynamicModule(model, compiler)
    module.body.refine(_division(directory, saved, module.body.graph))
    return module


def _division(directory: Path, saved: ProgramOptions, graph: BodyGraph) -> SegmentSplit:
    """How runs divided a model; raises ArtifactError for nodes and tensors that it has not."""
    on_host = {int(node): reason for node, reason in saved.on_host.items()}
    computed = {name for node in graph.nodes for name in node.output}
    unknown = [f"node {node}" for node in on_host if node >= len(graph.nodes)]
    unknown += [f"tensor {name!r}" for name in saved.split_at if name not in computed]
    if unknown:
        raise ArtifactError(
            f"{directory / PROGRAM_MANIFEST.file} names the {unknown[0]}, which its model has not:"
            f" {PROGRAM_MANIFEST.remedy}"
        )
    return SegmentSplit(on_host, frozenset(saved.split_at))
