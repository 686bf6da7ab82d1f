"""Rules for onnxruntime's operators; importing the modules below registers them."""

from compiler.frontend.rules.contrib import (
    activations,
    attention,
    block_quantised,
    gathered_blocks,
    gemm,
    group_query,
    normalization,
    others,
    qlinear,
    quantised,
    quantised_lstm,
    rotary,
)
from compiler.frontend.rules.contrib.registry import CONTRIB, rewrite_contrib
from compiler.frontend.rules.contrib.signatures import DOMAIN

__all__ = [
    "CONTRIB",
    "DOMAIN",
    "activations",
    "attention",
    "block_quantised",
    "gathered_blocks",
    "gemm",
    "group_query",
    "normalization",
    "others",
    "qlinear",
    "quantised",
    "quantised_lstm",
    "rewrite_contrib",
    "rotary",
]
