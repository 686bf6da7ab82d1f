"""Quantised models and kernels against the same in 16 bits."""
