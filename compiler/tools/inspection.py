"""Opens saved modules without their device, and predicts their runs."""

import os

from compiler.artifact import artifact
from compiler.artifact.module import Module
from compiler.scheduling.prediction import Prediction, gap, prediction

__all__ = ["Prediction", "gap", "open_module", "prediction"]


def open_module(directory: str | os.PathLike[str]) -> Module:
    """A saved module whose files were verified; it is loaded on its device when first used."""
    return Module(artifact.load(directory, lambda target, requirements: None))
