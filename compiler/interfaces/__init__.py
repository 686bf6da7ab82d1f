"""The interfaces of other libraries: onnxruntime's and PyTorch's."""
