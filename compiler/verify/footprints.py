"""How it is known that kernels stay inside their tensors, in words."""

from collections import Counter
from collections.abc import Collection, Iterator

from compiler.schedule.kernels import KernelSpec
from compiler.support.words import counted

MOST_ACCESSES = 10
"""The most accesses without a proof that are listed."""


def containment_lines(kernels: Collection[KernelSpec]) -> Iterator[str]:
    """How many kernels are proved to stay inside their tensors, and each access without a proof."""
    how = Counter(kernel.containment for kernel in kernels)
    counts = [f"{how['proved']} of {counted(len(kernels), 'kernel')} proved inside their tensors"]
    counts += [f"{how['tested']} only tested"] if how["tested"] else []
    counts += [f"{how['declared']} written by hand and tested"] if how["declared"] else []
    yield ", ".join(counts)
    undecided = [access for kernel in kernels for access in kernel.footprint.undecided]
    for access in undecided[:MOST_ACCESSES]:
        yield f"no proof: {access}"
    if len(undecided) > MOST_ACCESSES:
        yield f"no proof: {len(undecided) - MOST_ACCESSES} more accesses"
