"""CUDA kernel templates, each with its headers."""
