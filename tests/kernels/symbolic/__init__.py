"""Kernels of groups with symbols."""
