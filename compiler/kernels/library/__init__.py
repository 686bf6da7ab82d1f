"""Libraries of kernels that a release has built, a file for each target, in this folder."""
