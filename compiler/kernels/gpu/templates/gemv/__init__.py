"""GEMV and GEMMs of a few rows."""
