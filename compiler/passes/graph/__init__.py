"""Passes that decide what the kernels are."""
