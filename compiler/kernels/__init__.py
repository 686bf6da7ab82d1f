"""From fused groups to compiled kernels: distinct groups, a cache on disk, and worker processes.

Importing this package does not import TVM: a model whose kernels are all cached never needs it.
"""

from compiler.kernels.build import build_control_kernels, build_kernels, counted_groups
from compiler.kernels.cache import CacheStatus, KernelCache

__all__ = [
    "CacheStatus",
    "KernelCache",
    "build_control_kernels",
    "build_kernels",
    "counted_groups",
]
