"""Generators of nodes, a function for each family of operators."""

from tests.fuzz.catalogue import (
    control,
    elementwise,
    learned,
    matrices,
    moves,
    normalisation,
    quantised,
    recurrent,
    reductions,
    resizing,
    sampling,
    text,
    transforms,
    trees,
    windows,
)
from tests.fuzz.catalogue.registry import FAMILIES

__all__ = [
    "FAMILIES",
    "control",
    "elementwise",
    "learned",
    "matrices",
    "moves",
    "normalisation",
    "quantised",
    "recurrent",
    "reductions",
    "resizing",
    "sampling",
    "text",
    "transforms",
    "trees",
    "windows",
]
