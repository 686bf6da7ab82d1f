"""Fourier transforms of rows."""
