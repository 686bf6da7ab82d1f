"""ONNX models: their import as `dataflow` and a weight store, and the export of dumps."""
