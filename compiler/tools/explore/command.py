"""`flowloom explore`: opens what is named, and writes the page."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiler.errors import ArgumentError
from compiler.tools.explore.document import SideFact
from compiler.tools.explore.page import explore_page
from compiler.tools.explore.sides import artifact_side, model_side

Compile = Callable[[Namespace], Any]
"""Compiles the model of the options, which say more than its name."""


def explored(options: Namespace, compiled: Compile, check: Callable[[Namespace], None]) -> str:
    """The page of one or two modules or models; `check` refuses options that an artifact has not.

    Raises ArgumentError for more than two, and ArtifactError for a damaged artifact.
    """
    if len(options.models) > 2:
        raise ArgumentError(f"explore takes one or two models or artifacts: {len(options.models)}")
    if options.dump_ir is not None and len(options.models) > 1:
        raise ArgumentError("--dump-ir takes one model: two would write to one folder")
    if all(model.is_dir() for model in options.models):
        check(Namespace(**{**vars(options), "model": options.models[0]}))
    return explore_page([_side(model, options, compiled) for model in options.models])


def _side(model: Path, options: Namespace, compiled: Compile) -> SideFact:
    if model.is_dir():
        return artifact_side(model)
    given = Namespace(**{**vars(options), "model": model})
    return model_side(str(model), given, compiled)
