"""Scattered sums in two steps."""

import numpy as np

from compiler.net.evaluation.indexing import wrapped_index
from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import converted_array, double
from compiler.net.spec import Use


@evaluates("ScatterOrder")
def evaluate_scatter_order(node: Use) -> list[Array]:
    """Where each slot's updates start, and the updates by their slots."""
    slots = node["slots"]
    named = wrapped_index(node.array(0), slots)
    counts = np.bincount(named, minlength=slots)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return [starts.astype(np.int32), np.argsort(named, kind="stable").astype(np.int32)]


@evaluates("SegmentSum")
def evaluate_segment_sum(node: Use) -> Array:
    """The data with the updates of each segment added in their order."""
    updates, data, starts, order = (node.array(i) for i in range(4))
    total = double(data).copy()
    np.add.at(total, np.repeat(np.arange(len(data)), np.diff(starts)), double(updates[order]))
    return converted_array(total, data.dtype)
