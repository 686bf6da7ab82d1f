"""A few rows multiplied with a matrix."""
