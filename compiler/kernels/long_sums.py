"""Long sums in runs, so that rounding errors do not grow with the number of terms.

One accumulator of float32 loses what is below half its last digit: of 4e7 ones it adds 2**24. So
terms are added up in runs of about the square root of their number, and the sums of the runs after
that: the error of n terms is at most about 2 sqrt(n) roundings (Castaldo, Whaley and Chronopoulos,
Reducing floating point error in dot product using the superblock family of algorithms, 2008).
"""

from collections.abc import Sequence
from math import isqrt, prod

from compiler.kernels.arithmetic import ceil_div
from compiler.tensors.substitution import is_symbolic

LONG_SUM = 4608
"""The most terms that one accumulator adds: 3 x 3 taps of 512 channels, as networks have them."""

INNER_SUMS = 32
"""Accumulators of a sum along memory: vectors' lanes on a CPU, threads on a GPU."""

LEAST_RUN = 512
"""The fewest terms of a run: adding its sum costs next to nothing then."""

WIDE_RUN = 128
"""The terms of each accumulator of a run whose sum is added in float64.

Roundings of equal terms do not cancel: n of them in one accumulator err by up to n roundings.
"""


def run_of(terms: int) -> int:
    """The terms that an accumulator adds up from zero: all of a short sum.

    Sums whose terms depend on symbols are short: a build for all sizes assumes so.
    """
    if is_symbolic(terms):
        return terms
    return terms if terms <= LONG_SUM else max(LEAST_RUN, isqrt(terms - 1) + 1)


def divided_axis(extents: Sequence[int], run: int) -> tuple[int, int]:
    """The axis that ends runs of about so many terms, outermost axes first, and a run's part of it.

    The part divides the axis if a number that is nearly as good does.
    """
    inner = 1
    for axis in reversed(range(len(extents))):
        if inner * extents[axis] >= run:
            part = ceil_div(run, inner)
            even = (
                d for d in range(part, min(2 * part, extents[axis]) + 1) if not extents[axis] % d
            )
            return axis, next(even, part)
        inner *= extents[axis]
    raise ValueError(f"{prod(extents)} terms have no run of {run}")
