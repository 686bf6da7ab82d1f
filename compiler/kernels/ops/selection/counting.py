"""The lowering of NonZeroPositions: parts are counted, then each writes after those before it."""

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.ops.common import cast, wide
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.opaque import launch, loops, mutable, turns, workspace
from compiler.kernels.sizes import as_size, expression, may_exceed
from compiler.net.operators import NONZERO_POSITIONS

PART = 1 << 15
"""Elements of a part, which is one block."""


@lowering(NONZERO_POSITIONS)
def lower_nonzero_positions(context: Context) -> list[te.Tensor]:
    """The positions of the elements that are not zero, in order, and their number."""
    info = context.operand(0)
    total = prod(info.shape)
    most = context.output.shape[0]
    dtype = wide(info.dtype)
    parts = as_size(ceil_div(total, PART)) if may_exceed(total, PART) else 1

    def each(data: Any, part: Any, visit: Callable[[Any], None]) -> None:
        first = part * PART
        length = total if parts == 1 else tirx.min(PART, expression(total) - first)
        with turns(length) as i:
            at = T.bind(first + i)
            value = cast(data[at], dtype)
            with T.If(value if dtype == "bool" else value != tirx.const(0, dtype)), T.Then():
                visit(at)

    def write(data: Any, part: Any, reached: Any, positions: Any) -> None:
        def store(at: Any) -> None:
            place = T.bind(reached[0])
            # for the proof that it is in the result, which has room for all
            with T.If(tirx.all(place >= 0, place < expression(most))), T.Then():
                positions[place] = at.astype("int64")
            reached[0] = place + 1

        each(data, part, store)

    def emit(data: Any, positions: Any, number: Any) -> None:
        if parts == 1:
            with launch(1) as part:
                reached = mutable()
                reached[0] = tirx.const(0, "int32")
                write(data, part, reached, positions)
                number[0] = reached[0].astype("int64")
            return
        starts = workspace(parts, "int32")
        with launch(parts) as part:
            own = mutable()
            own[0] = tirx.const(0, "int32")

            def count(_: Any) -> None:
                own[0] = own[0] + 1

            each(data, part, count)
            starts[part] = own[0]
        with launch(1):
            before = mutable()
            before[0] = tirx.const(0, "int32")
            with turns(parts) as each_part:
                counted = T.bind(starts[each_part])
                starts[each_part] = before[0]
                before[0] = before[0] + counted
            number[0] = before[0].astype("int64")
        with launch(parts) as part:
            reached = mutable()
            reached[0] = starts[part]
            write(data, part, reached, positions)

    return loops(context, [context.tensor(0)], emit)
