"""GEMMs and convolutions of bytes on tensor cores, with exact integer sums."""
