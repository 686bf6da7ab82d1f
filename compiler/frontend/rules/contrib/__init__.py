"""Rules for onnxruntime's operators; importing the modules below registers them."""

from compiler.frontend.rules.contrib import activations, attention, gemm, normalization
from compiler.frontend.rules.contrib.registry import CONTRIB, rewrite_contrib

__all__ = ["CONTRIB", "activations", "attention", "gemm", "normalization", "rewrite_contrib"]
