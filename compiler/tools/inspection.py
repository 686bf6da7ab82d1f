"""Opens saved modules without their device."""

import os
from pathlib import Path

from compiler.artifact.artifact import Artifact
from compiler.artifact.checking import read_artifact
from compiler.artifact.module import Module


def open_module(directory: str | os.PathLike[str]) -> Module:
    """A saved module whose files were verified; it is loaded on its device when first used.

    A segment for all sizes is opened at the sizes that it was compiled with.
    """
    saved = read_artifact(Path(directory))
    if isinstance(saved, Artifact):
        return Module(saved)
    return Module(saved.at({name: symbol.hint for name, symbol in saved.schedule.symbols.items()}))
