"""Dtypes, and tensors as strided windows of a buffer."""
