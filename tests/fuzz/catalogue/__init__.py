"""Generators of nodes, a function for each family of operators."""

from tests.fuzz.catalogue import (
    carried,
    control,
    elementwise,
    hosts,
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
    "carried",
    "control",
    "elementwise",
    "hosts",
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
