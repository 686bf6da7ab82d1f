"""Kernels for AMD GPUs: the CUDA text, with matrix cores and the compiler of AMD."""
