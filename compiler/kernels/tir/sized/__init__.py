"""Kernels with symbols: launches, and proofs for all sizes."""
