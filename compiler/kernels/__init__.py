"""From fused groups to compiled kernels: distinct groups, a cache on disk, and worker processes.

Importing this package does not import TVM: a model whose kernels are all cached never needs it.
"""

from compiler.kernels.build import (
    KeptKernels,
    build_control_kernels,
    build_kernels,
    build_missing,
    counted_groups,
    exact_target,
)
from compiler.kernels.cache import CacheStatus, KernelCache
from compiler.kernels.without_torch import hide_torch

hide_torch()

__all__ = [
    "CacheStatus",
    "KeptKernels",
    "KernelCache",
    "build_control_kernels",
    "build_kernels",
    "build_missing",
    "counted_groups",
    "exact_target",
]
