"""Opens saved modules without their device."""

import os
from pathlib import Path
from typing import Any

from compiler.artifact import artifact, symbolic
from compiler.artifact.manifest import ARTIFACT_MANIFEST, format_in, trust_all
from compiler.artifact.module import Module
from compiler.artifact.symbolic import SIZES_ENTRY


def open_module(directory: str | os.PathLike[str]) -> Module:
    """A saved module whose files were verified; it is loaded on its device when first used.

    A segment for all sizes is opened for those that it was compiled at.
    """
    folder = Path(directory)
    is_artifact = format_in(folder) is ARTIFACT_MANIFEST
    if not is_artifact or SIZES_ENTRY not in ARTIFACT_MANIFEST.read(folder, trust_all):
        return Module(artifact.load(directory, _any_host))
    segment, _, _ = symbolic.load(directory, _any_host)
    sizes = {name: symbol.hint for name, symbol in segment.schedule.symbols.items()}
    return Module(segment.at(sizes))


def _any_host(target: str, requirements: Any) -> None:
    """Accepts every host: what is looked at need not run here."""
