"""The entries of a program's manifest besides its files: how its segments are compiled."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from compiler.artifact.manifest import PROGRAM_MANIFEST, Vouch, check_program_files
from compiler.backends.policy import GraphPolicy
from compiler.errors import ArgumentError, ArtifactError, KernelError
from compiler.support.arguments import WAYS
from compiler.target.target import parse_target
from compiler.verify import checked_json as read


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """The options of a dynamic module, and how its runs have divided the model.

    `on_host` has the reason of each node that runs on the host, by its number as text; `split_at`
    are the tensors between segments.
    """

    target: str
    pipeline: str | None
    check_indices: bool
    graphs: str
    semantics: Mapping[str, str]
    input_shapes: Mapping[str, tuple[int, ...]]
    on_host: Mapping[str, str]
    split_at: tuple[str, ...]


def read_program_manifest(directory: Path, vouch: Vouch) -> tuple[dict[str, Any], ProgramOptions]:
    """The manifest of a program whose files are as saved, and its options.

    Raises ArtifactError that names what is missing, damaged, or no such option.
    """
    manifest = PROGRAM_MANIFEST.read(directory, vouch)
    check_program_files(directory, manifest)
    path = str(directory / PROGRAM_MANIFEST.file)
    if absent := [f.name for f in fields(ProgramOptions) if f.name not in manifest]:
        raise ArtifactError(f"{path} has no {absent[0]}: save the module again")
    way = partial(read.checked_one_of, allowed=WAYS)
    options = read.checked_record(
        ProgramOptions,
        manifest,
        path,
        semantics=partial(read.checked_by_name, item=way),
    )
    try:
        parse_target(options.target)
        GraphPolicy.parse(options.graphs)
    except (ArgumentError, KernelError) as error:
        raise ArtifactError(f"{path}: {error}") from error
    if wrong := [node for node in options.on_host if not node.isdecimal()]:
        raise ArtifactError(f"{path}.on_host names {wrong[0]!r}, which is not the number of a node")
    return manifest, options
