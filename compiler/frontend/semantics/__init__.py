"""Nodes whose results differ between the ONNX text and onnxruntime, and whose a model has."""

from compiler.frontend.semantics.choice import ONNX, PYTORCH, Semantics
from compiler.frontend.semantics.rule import SemanticsRule
from compiler.frontend.semantics.table import SEMANTICS_RULES

__all__ = ["ONNX", "PYTORCH", "SEMANTICS_RULES", "Semantics", "SemanticsRule"]
