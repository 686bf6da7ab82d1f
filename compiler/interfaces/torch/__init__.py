"""Modules of PyTorch: `from_torch`, and the backend of `torch.compile` (docs/interfaces.md)."""
