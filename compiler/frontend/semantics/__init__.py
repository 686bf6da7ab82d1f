"""Nodes whose results differ between the ONNX text and onnxruntime, and whose a model has."""

from compiler.frontend.semantics.choice import ONNX, Semantics
from compiler.frontend.semantics.rule import NodeUse, SemanticsRule
from compiler.frontend.semantics.table import RULES

__all__ = ["ONNX", "RULES", "NodeUse", "Semantics", "SemanticsRule"]
