"""Scatters that combine rows, in two steps, of which they share the order of the updates."""

from compiler.net.attributes import Shape, integer, one_of
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import has_rank, has_shape, listed
from compiler.net.spec import Kind, OpSpec, operator
from compiler.tensors.dtypes import FLOATS, INDICES

SCATTER_ORDER = "ScatterOrder"
"""The operator that sorts updates by the slots that their indices name."""

SEGMENT_REDUCE = "SegmentReduce"
"""The operator that combines each slice of a tensor with its segment of the updates."""


def _order(node: TypedNode) -> list[Shape]:
    indices = node.shape()
    slots = node["slots"]
    has_rank("its input", indices, 1, 1)
    return [(slots + 1,), indices]


def _reduce(node: TypedNode) -> list[Shape]:
    updates, data, starts, order = (node.shape(i) for i in range(4))
    has_rank("its tensor of updates", updates, 1)
    has_rank("its data", data, 1)
    if updates[1:] != data[1:]:
        raise ShapeMismatch(
            f"its updates have the shape {listed(updates)}, its data {listed(data)}: slices of both"
            " must have one shape"
        )
    has_shape("its starts", starts, (data[0] + 1,), f"the data have the shape {listed(data)}")
    has_shape("its order", order, updates[:1], f"the updates have the shape {listed(updates)}")
    return [data]


SEGMENTS: dict[str, OpSpec] = {
    SCATTER_ORDER: operator(
        Kind.OPAQUE,
        "I -> int32 int32",
        _order,
        {"slots": integer(required=True, least=1)},
        I=INDICES,
    ),
    SEGMENT_REDUCE: operator(
        Kind.REDUCTION,
        "T T int32 int32 -> T",
        _reduce,
        {"reduction": one_of("add", "mul", "max", "min")},
        facts=Facts(wide=True),
        T=FLOATS,
    ),
}
"""The entries of this family, by operator.

ScatterOrder takes one index for each update and gives the rows of a CSR matrix: update
`order[starts[s]]` is the first one of slot `s`, those of a slot keep their order, and
`starts[slots]` is their number. SegmentReduce combines slice `s` of the data with
`updates[order[k]]` for each `k` from `starts[s]` to `starts[s + 1]`, as a scatter with its
`reduction` does.
"""
