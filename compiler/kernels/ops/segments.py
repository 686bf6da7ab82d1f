"""Lowerings of scatters that combine rows, in two steps."""

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from compiler.kernels.ops.common import cast, safe_index, wide
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.opaque import combine, loops
from compiler.kernels.ops.reducers import (
    identity_of,
    in_runs,
    max_reducer,
    min_reducer,
    product_reducer,
    sum_reducer,
)
from compiler.net.operators import SCATTER_ORDER, SEGMENT_REDUCE


@lowering(SCATTER_ORDER)
def lower_scatter_order(context: Context) -> list[te.Tensor]:
    """A counting sort: slots are counted, then each update takes the next place of its slot."""
    (count,), slots = context.shape(), context["slots"]

    def emit(indices: Any, starts: Any, order: Any) -> None:
        zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
        with T.serial(0, slots + 1) as s:
            starts[s] = zero
        with T.serial(0, count) as i:
            after = safe_index(indices[i], slots) + 1
            starts[after] = starts[after] + one
        with T.serial(0, slots) as s:
            starts[s + 1] = starts[s + 1] + starts[s]
        with T.serial(0, count) as i:  # which moves each start to that of the next slot
            slot = safe_index(indices[i], slots)
            order[starts[slot]] = cast(i, "int32")
            starts[slot] = starts[slot] + one
        with T.serial(0, slots) as s:
            starts[slots - s] = starts[slots - s - 1]
        starts[0] = zero

    return loops(context, [context.tensor(0)], emit)


_REDUCERS = {
    "add": sum_reducer,
    "mul": product_reducer,
    "max": max_reducer,
    "min": min_reducer,
}


@lowering(SEGMENT_REDUCE)
def lower_segment_reduce(context: Context) -> te.Tensor:
    """The reduction over all updates of those in each segment, which are not known beforehand."""
    updates, data, starts, order = (context.tensor(i) for i in range(4))
    dtype = wide(context.output.dtype)
    kind = context["reduction"]
    reducer = _REDUCERS[kind]
    k = te.reduce_axis((0, context.shape(3)[0]), "k")

    def segment(slot: Any, *inner: Any) -> Any:
        inside = tirx.all(starts(slot) <= k, k < starts(slot + 1))
        update = cast(updates(order(k), *inner), dtype)
        return reducer(tirx.Select(inside, update, identity_of(reducer, dtype)), axis=[k])

    def total(*at: Any) -> Any:
        return cast(combine(kind, cast(data(*at), dtype), segments(*at)), context.output.dtype)

    segments = te.compute(context.output.shape, segment, name="segments")
    segments = in_runs(segments) if reducer is sum_reducer else segments
    return te.compute(context.output.shape, total, name="data_and_segments")
