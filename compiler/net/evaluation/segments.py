"""Scatters that combine rows, in two steps."""

import numpy as np

from compiler.net.evaluation.indexing import combined, wrapped_index
from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.node import TypedNode


@evaluates("ScatterOrder")
def evaluate_scatter_order(node: TypedNode) -> list[Array]:
    """Where each slot's updates start, and the updates by their slots."""
    slots = node["slots"]
    named = wrapped_index(node.array(0), slots)
    counts = np.bincount(named, minlength=slots)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return [starts.astype(np.int32), np.argsort(named, kind="stable").astype(np.int32)]


@evaluates("SegmentReduce")
def evaluate_segment_reduce(node: TypedNode) -> Array:
    """The data with the updates of each segment combined in their order."""
    updates, data, starts, order = (node.array(i) for i in range(4))
    slots = np.repeat(np.arange(len(data)), np.diff(starts))
    return combined(node["reduction"], data, (slots,), updates[order])
