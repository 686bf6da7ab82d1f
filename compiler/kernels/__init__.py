"""Kernels of fused groups, for CPUs and GPUs; the only importer of TVM."""

from compiler.kernels.without_torch import hide_torch

hide_torch()
