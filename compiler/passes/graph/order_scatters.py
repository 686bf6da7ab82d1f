"""The pass that puts the updates of scatters in order once for all that share it."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.graph.fusion.scattered_rows import MOST_SLOTS, ScatteredRows, find_scattered_rows
from compiler.graph.rewriting.weights import derived_key, reshaped_key
from compiler.graph.targets import target_of
from compiler.ir.dataflow import ConstantOp, GraphOp, OperatorOp, WeightOp
from compiler.ir.edit import (
    erase_dead,
    graphs_of,
    insert_before,
    like_before,
    replace,
)
from compiler.ir.types import dtype_of, int64, shape_of, tensor_type
from compiler.ir.values import attribute_to_array, value_to_attribute
from compiler.net.operators import SCATTER_ORDER, SEGMENT_REDUCE
from compiler.passes.base import GraphPass

Order = tuple[SSAValue, SSAValue]


@dataclass(frozen=True)
class OrderScatters(GraphPass):
    """Rewrite scatters that combine rows as a ScatterOrder, which sorts the updates by the rows
    that their indices name, and a SegmentReduce, which combines each row's.

    Requires: nothing; best after `canonicalize`. Ensures: in a graph for a GPU, no scatter is left
    that `compiler.graph.fusion.scattered_rows` finds, but those by computed indices into more than
    `MOST_SLOTS` rows; those of equal indices share the order, which is a weight where the indices
    are constant. A Gather or Mul that makes the updates can
    fuse with the sum, as can an epilogue: the layers of a graph network write no rows of edges.

        %3 = dataflow.op "GatherND" (%x, %1) ...
        %4 = dataflow.op "ScatterND" (%zeros, %2, %3) {reduction = "add"}
      becomes
        %starts, %order = dataflow.op "ScatterOrder" (%0) {slots = 2000}
        %3 = dataflow.op "GatherND" (%x, %1) ...
        %4 = dataflow.op "SegmentReduce" (%3, %zeros, %starts, %order) {reduction = "add"}
    """

    name = "order-scatters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the scatters of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            if target_of(graph).is_gpu:
                _rewrite(graph)


def _rewrite(graph: GraphOp) -> None:
    orders: dict[tuple[SSAValue, int], Order] = {}
    for op in list(graph.body.block.ops):
        scattered = find_scattered_rows(op) if isinstance(op, OperatorOp) else None
        if scattered is None or not isinstance(op, OperatorOp):
            continue
        if scattered.slots > MOST_SLOTS and not _key(scattered):
            continue  # a scatter reads all updates in as many blocks as the device has SMs
        key = scattered.indices, scattered.slots
        if key not in orders:
            orders[key] = _order(op, scattered)
        operands = [scattered.updates, scattered.data, *orders[key]]
        shape = shape_of(scattered.data.type)
        rows = like_before(op, SEGMENT_REDUCE, operands, shape, reduction=op["reduction"])
        replace(op, [rows])
    if orders:
        erase_dead(list(graph.body.block.ops))


def _order(anchor: OperatorOp, scattered: ScatteredRows) -> Order:
    """The starts of the slots and the order of the updates, before an operator."""
    types = [tensor_type("int32", (size,)) for size in (scattered.slots + 1, scattered.count)]
    key = _key(scattered)
    if key:
        attributes = {"slots": scattered.slots}
        keys = [derived_key(name, [key], attributes, "int32") for name in ("starts", "order")]
        starts, order = (WeightOp(k, t) for k, t in zip(keys, types, strict=True))
        insert_before(anchor, starts, order)
        return starts.output, order.output
    indices = scattered.indices
    if shape_of(indices.type) != (scattered.count,):
        view = tensor_type(dtype_of(indices.type), (scattered.count,))
        shape = {"shape": value_to_attribute([scattered.count])}
        reshape = OperatorOp("Reshape", [indices], [view], shape, anchor.node_name)
        insert_before(anchor, reshape)
        indices = reshape.outputs[0]
    slots = {"slots": int64(scattered.slots)}
    op = OperatorOp(SCATTER_ORDER, [indices], types, slots, anchor.node_name)
    insert_before(anchor, op)
    return op.outputs[0], op.outputs[1]


def _key(scattered: ScatteredRows) -> str:
    """The key of constant indices as a vector; empty where they are computed."""
    match scattered.indices.owner:
        case WeightOp() as weight:
            return reshaped_key(weight.key.data, (scattered.count,))
        case ConstantOp() as constant:
            array = attribute_to_array(constant.value)
            attributes = {"value": array.tolist(), "shape": [scattered.count]}
            return derived_key("constant", [], {**attributes, "dtype": str(array.dtype)})
        case _:
            return ""
