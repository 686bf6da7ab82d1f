"""From fused groups to compiled kernels."""
