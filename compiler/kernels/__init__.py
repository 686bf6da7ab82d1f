"""From fused groups to compiled kernels: distinct groups, a cache on disk, and worker processes.

Importing this package does not import TVM: a model whose kernels are all cached never needs it.
"""

from compiler.kernels.build import build_kernels
from compiler.kernels.cache import CacheStatus, KernelCache
from compiler.kernels.target import CpuTarget, host_target, parse_target

__all__ = [
    "CacheStatus",
    "CpuTarget",
    "KernelCache",
    "build_kernels",
    "host_target",
    "parse_target",
]
