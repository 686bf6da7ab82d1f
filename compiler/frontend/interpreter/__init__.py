"""A numpy interpreter of ONNX: it folds constants, and is the oracle in tests of passes."""

from compiler.frontend.interpreter.evaluation import evaluate_node, is_known_operator
from compiler.frontend.interpreter.run import Arrays, evaluated, interpret

__all__ = [
    "Arrays",
    "evaluate_node",
    "evaluated",
    "interpret",
    "is_known_operator",
]
