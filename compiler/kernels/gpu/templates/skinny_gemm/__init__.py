"""GEMMs of a few rows by constant weights, dense or of four bits, on tensor cores."""
