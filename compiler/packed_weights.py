"""The weights of a schedule as its kernels read them."""

from collections.abc import Mapping

import numpy as np

from compiler.graph.packing import apply_packing
from compiler.graph.weights import Array, weight_array
from compiler.ir import taskflow
from compiler.ir.values import stored_as


def packed_weights(graph: taskflow.GraphOp, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The packed weights that the schedule reads, by allocation name."""
    return {
        op.allocation_name: np.asarray(_packed(op, weight_array(weights, op.key.data)), order="C")
        for op in graph.walk()
        if isinstance(op, taskflow.WeightOp)
    }


def _packed(weight: taskflow.WeightOp, array: Array) -> Array:
    stored = stored_as(array, weight.result.type, weight.key.data)
    return apply_packing(stored, weight.packing.data) if weight.packing is not None else stored
