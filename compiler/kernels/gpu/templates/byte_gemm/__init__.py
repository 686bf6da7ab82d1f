"""GEMMs and convolutions of bytes on tensor cores: integers with exact sums, and float8s."""
