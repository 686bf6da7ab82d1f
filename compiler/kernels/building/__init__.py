"""Building of kernels: from fused groups to machine code, through a cache on disk and workers.

Importing this package does not import TVM: a model whose kernels are all cached never needs it.
"""

from compiler.kernels.building.cache import CacheStatus, KernelCache
from compiler.kernels.building.module import (
    KeptKernels,
    build_control_kernels,
    build_kernels,
    build_missing,
    counted_groups,
    exact_target,
)

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
