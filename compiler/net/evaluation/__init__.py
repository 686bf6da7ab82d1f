"""What operators compute, in numpy: a function of a node with known inputs, a family a module."""

from compiler.net.evaluation import (
    activations,
    contractions,
    elementwise,
    fourier,
    indexing,
    normalization,
    positions,
    quantisation,
    recurrence,
    reductions,
    resize,
    rounding,
    segments,
    suppression,
    windows,
)
from compiler.net.evaluation.registry import EVALUATIONS

__all__ = ["EVALUATIONS", "FAMILIES"]

FAMILIES = (
    activations,
    contractions,
    elementwise,
    fourier,
    indexing,
    normalization,
    positions,
    quantisation,
    recurrence,
    reductions,
    resize,
    rounding,
    segments,
    suppression,
    windows,
)
"""The modules whose import registers every evaluation."""
