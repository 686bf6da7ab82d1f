"""Scattered sums in two steps as ONNX nodes."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from compiler.frontend.export_nodes import Nodes


def scatter_order_nodes(
    nodes: Nodes, indices: str, outputs: Sequence[str], slots: int, count: int
) -> list[onnx.NodeProto]:
    """A stable sort of the indices by TopK, and running sums of how many each slot has."""
    starts, order = outputs
    wide = nodes.add("Cast", indices, to=TensorProto.INT64)
    named = nodes.add("Mod", nodes.add("Clip", wide, -slots, slots - 1), slots)
    results = [nodes.fresh(name) for name in ("values", "places")]
    every = nodes.store("count", np.array([count]))
    nodes.made.append(helper.make_node("TopK", [named, every], results, largest=0))
    nodes.named("Cast", results[1:], order, to=TensorProto.INT32)
    empty, ones = np.zeros(slots + 1, np.int64), np.ones(count, np.int64)
    counts = nodes.add("ScatterElements", empty, nodes.add("Add", named, 1), ones, reduction="add")
    nodes.named("Cast", [nodes.add("CumSum", counts, 0)], starts, to=TensorProto.INT32)
    return nodes.made


def segment_sum_nodes(
    nodes: Nodes, inputs: Sequence[str], output: str, slots: int, count: int
) -> list[onnx.NodeProto]:
    """A ScatterND of the updates in order, to the slots that the starts stand for."""
    updates, data, starts, order = inputs
    ends = nodes.add("Slice", nodes.add("Cast", starts, to=TensorProto.INT64), [1], [slots + 1])
    empty, ones = np.zeros(count + 1, np.int64), np.ones(slots, np.int64)
    marks = nodes.add("ScatterElements", empty, ends, ones, reduction="add")
    slot = nodes.add("Slice", nodes.add("CumSum", marks, 0), [0], [count])
    sorted_updates = nodes.add("Gather", updates, order, axis=0)
    places = nodes.add("Unsqueeze", slot, [1])
    nodes.named("ScatterND", [data, places, sorted_updates], output, reduction="add")
    return nodes.made
