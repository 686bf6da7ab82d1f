"""Rules for onnxruntime's operators; importing the modules below registers them."""

from compiler.frontend.rules.contrib import (
    activations,
    attention,
    gemm,
    normalization,
    qlinear,
    quantised,
    quantised_lstm,
)
from compiler.frontend.rules.contrib.registry import CONTRIB, rewrite_contrib

__all__ = [
    "CONTRIB",
    "activations",
    "attention",
    "gemm",
    "normalization",
    "qlinear",
    "quantised",
    "quantised_lstm",
    "rewrite_contrib",
]
