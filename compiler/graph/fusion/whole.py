"""Operators that stay whole on targets with a kernel for them; others get them in parts."""

from collections.abc import Callable
from functools import partial

from compiler.graph.fusion.recurrences import Recurrence, has_kernel
from compiler.net.operators.fourier import Transform, radices_of
from compiler.target.target import Target

Whole = Recurrence | Transform

MOST_TRANSFORMED = 4096
"""The longest transform whose rows fit the shared memory of a block."""


def no_kernels(whole: Whole) -> bool:
    """`has_kernel` of a target without any kernel for such operators."""
    return False


def whole_kernels(target: Target) -> Callable[[Whole], bool]:
    """`has_kernel` of a target."""
    return partial(_has_kernel, target=target)


def _has_kernel(whole: Whole, target: Target) -> bool:
    if isinstance(whole, Recurrence):
        return has_kernel(whole, target)
    fits = whole.rows > 0 and whole.length <= MOST_TRANSFORMED
    return target.is_gpu and fits and bool(radices_of(whole.length))
