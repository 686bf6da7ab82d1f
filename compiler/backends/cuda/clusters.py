"""Clusters of more blocks than every GPU that has clusters can run."""

from collections.abc import Callable
from math import prod
from typing import Any

from compiler.backends.gpu.driver import Handle

PORTABLE_CLUSTER = 8
"""Blocks of the largest cluster that a kernel has without asking."""


def allow_cluster(cuda: Any, check: Callable[[Any], Any], function: Handle) -> Handle:
    """The function, allowed the cluster that it was compiled for; `check` raises DeviceError."""
    kind = cuda.CUfunction_attribute
    sides = (
        getattr(kind, f"CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_{s}")
        for s in ("WIDTH", "HEIGHT", "DEPTH")
    )
    if prod(check(cuda.cuFuncGetAttribute(side, function)) for side in sides) > PORTABLE_CLUSTER:
        allowed = kind.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        check(cuda.cuFuncSetAttribute(function, allowed, 1))
    return function
