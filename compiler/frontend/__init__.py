"""Import of ONNX models: fixes shapes, folds constants, normalises operators to one opset."""

from compiler.frontend.builder import NORMALISED_OPSET
from compiler.frontend.importer import Imported, import_model

__all__ = ["NORMALISED_OPSET", "Imported", "import_model"]
