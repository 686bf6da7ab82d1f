"""onnxruntime's interface on compiled modules: sessions, values, bindings (docs/interfaces.md)."""
