"""The candidate to take of whole graphs, by their times and the memory of their weights."""

from collections.abc import Mapping, Set

from xdsl.dialects.builtin import ModuleOp

from compiler.graph.cost import nbytes
from compiler.ir.dataflow import WeightOp

SHARING_COST = 1.01
"""The most time of a candidate that saves memory, as a part of the fastest one's."""


def sparing(times: Mapping[str, float], added: Mapping[str, int]) -> str:
    """The candidate whose weights add the fewest bytes of those that take about as long as one.

    That one is the first. Of as few bytes, it comes first, then the faster.
    """
    chosen = next(iter(times))
    about = [name for name, time in times.items() if time <= SHARING_COST * times[chosen]]
    return min(about, key=lambda name: (added[name], name != chosen, times[name]))


def added_bytes(module: ModuleOp, resident: Set[str]) -> int:
    """The bytes of a module's weights but for those of keys that are in memory already."""
    weights = {op.key.data: op for op in module.walk() if isinstance(op, WeightOp)}
    return sum(nbytes(op.results[0]) for key, op in weights.items() if key not in resident)
