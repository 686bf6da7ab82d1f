"""Import of ONNX models: fixes shapes, folds constants, normalises operators to one opset."""

from compiler.frontend.importing.model import Imported, import_model

__all__ = ["Imported", "import_model"]
