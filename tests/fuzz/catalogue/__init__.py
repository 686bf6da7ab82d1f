"""Generators of nodes, a function for each family of operators."""

from tests.fuzz.catalogue import (
    control,
    elementwise,
    matrices,
    moves,
    normalisation,
    quantised,
    recurrent,
    reductions,
    resizing,
    sampling,
    transforms,
    windows,
)
from tests.fuzz.catalogue.registry import FAMILIES

__all__ = [
    "FAMILIES",
    "control",
    "elementwise",
    "matrices",
    "moves",
    "normalisation",
    "quantised",
    "recurrent",
    "reductions",
    "resizing",
    "sampling",
    "transforms",
    "windows",
]
