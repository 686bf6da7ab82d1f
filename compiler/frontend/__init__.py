"""ONNX models in: shapes fixed, constants folded, every operator in one normalised form."""

from compiler.frontend.builder import NORMALISED_OPSET
from compiler.frontend.importer import Imported, import_model

__all__ = ["NORMALISED_OPSET", "Imported", "import_model"]
