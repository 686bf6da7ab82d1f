"""The first statements of kernels, and further entry points of theirs."""
