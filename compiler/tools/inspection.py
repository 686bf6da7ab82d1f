"""Opens saved modules without their device."""

import os

from compiler.artifact import artifact
from compiler.artifact.module import Module


def open_module(directory: str | os.PathLike[str]) -> Module:
    """A saved module whose files were verified; it is loaded on its device when first used."""
    return Module(artifact.load(directory, lambda target, requirements: None))
