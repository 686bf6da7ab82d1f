"""The candidate to take of whole graphs, by their times and the memory of their weights."""

from collections.abc import Sequence, Set

from xdsl.dialects.builtin import ModuleOp

from compiler.graph.cost import nbytes
from compiler.ir.dataflow import WeightOp

SHARING_COST = 1.01
"""The most time of a candidate that saves memory, as a part of the fastest one's."""


def surely_fastest(times: Sequence[float], margin: float) -> int:
    """The candidate of the least time, if it is surely faster than the last, the graph as it is."""
    best = min(range(len(times)), key=times.__getitem__)
    return best if times[best] < (1 - margin) * times[-1] else len(times) - 1


def sparing(times: Sequence[float], added: Sequence[int], taken: int) -> int:
    """The candidate whose weights add the fewest bytes of those that take about as long as one.

    Of as few bytes, that one comes first, then the faster.
    """
    about = [n for n, time in enumerate(times) if time <= SHARING_COST * times[taken]]
    return min(about, key=lambda n: (added[n], n != taken, times[n]))


def added_bytes(module: ModuleOp, resident: Set[str]) -> int:
    """The bytes of a module's weights but for those of keys that are in memory already."""
    weights = {op.key.data: op for op in module.walk() if isinstance(op, WeightOp)}
    return sum(nbytes(op.results[0]) for key, op in weights.items() if key not in resident)
