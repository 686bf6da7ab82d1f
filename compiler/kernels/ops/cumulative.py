"""The lowering of CumSum, in blocks of rows side by side and of parts of long ones; Positions."""

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from compiler.kernels.arithmetic import ceil_div, round_up
from compiler.kernels.long_sums import LONG_SUM
from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import cast, wide
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.opaque import launch, loops, mutable, turns, workspace
from compiler.kernels.ops.rows import AxisRows, rows_along
from compiler.kernels.sizes import as_size, at_hint, expression, is_long, is_number, may_exceed
from compiler.net.operators import POSITIONS
from compiler.tensors.arithmetic import maximum

LEAST_LANES, LANES, STRIDES = 128, 1024, 16
"""Fewest and most rows side by side that a block has: short pieces of memory are read slowly. A
contiguous row is added up by sums of every 16th element."""

PART, ENOUGH = 1 << 15, 8
"""Fewest elements of a part of rows, and blocks from which on rows are not divided."""


@dataclass(frozen=True)
class Scan(AxisRows):
    """Running sums of each row. Lanes and parts are numbers, those for the example sizes."""

    @property
    def lanes(self) -> int:
        """The rows of a block: the fewer, the more blocks there are."""
        few = ceil_div(at_hint(self.rows), ENOUGH * STRIDES) * STRIDES
        lanes = min(LANES, max(LEAST_LANES, few))
        return min(self.inner, lanes) if is_number(self.inner) else lanes

    @property
    def tiles(self) -> int:
        """The blocks of rows side by side."""
        return ceil_div(self.inner, self.lanes)

    @property
    def part(self) -> int:
        """The elements of a part of a row: a multiple of `STRIDES`, or all."""
        few = self._most_parts
        if is_number(self.length):
            few = min(few, self.length * self.lanes // PART)
        if few < 2:
            return self.length
        part = round_up(ceil_div(self.length, few), STRIDES)
        if is_number(part):
            return part
        return as_size(maximum(round_up(ceil_div(PART, self.lanes), STRIDES), part))

    @property
    def parts(self) -> int:
        """The parts of a row. Where a run decides its length some may have no elements."""
        return ceil_div(self.length, self.part) if is_number(self.length) else self._most_parts

    @property
    def _most_parts(self) -> int:
        return max(1, ENOUGH // max(1, at_hint(self.outer * self.tiles)))


@lowering("CumSum")
def lower_cumulative_sum(context: Context) -> list[te.Tensor]:
    """Running sums along an axis, from either end, with or without the element itself.

    Halves are added in float32, long rows of floats in float64: each sum is one of all terms
    before it. Of rows in parts, all parts are added up first.
    """
    output = context.output
    scan = Scan(*rows_along(output.shape, context["axis"]))
    exclusive, reverse = context["exclusive"], context["reverse"]
    dtype = wide(output.dtype)
    if dtype == "float32" and may_exceed(scan.length, LONG_SUM):
        dtype = "float64"
    # adding -0.0 changes no bit of a float
    none = tirx.const(-0.0 if "float" in dtype and not exclusive else 0, dtype)

    def place(outer: Any, step: Any, inner: Any) -> Any:
        position = scan.length - 1 - step if reverse else step
        if reverse and not is_number(scan.length) and is_long(scan.inner):
            position = tirx.max(position, 0)  # for the proof that it is in the row
        return (outer * scan.length + position) * scan.inner + inner

    def emit(data: Any, out: Any) -> None:
        if not prod(output.shape):
            return
        parts = scan.parts
        totals = _totals(scan, data, place, dtype) if parts > 1 else None
        with launch(scan.outer * scan.tiles * parts) as block:
            rows, part = block // parts, block % parts
            outer, first = rows // scan.tiles, rows % scan.tiles * scan.lanes
            sums = mutable(dtype, scan.lanes)
            whole = is_number(scan.inner) and scan.inner % scan.lanes == 0
            lanes = scan.lanes if whole else tirx.min(scan.lanes, scan.inner - first)
            with turns(lanes if totals is None else scan.lanes) as lane:
                sums[lane] = none
            if totals is not None:
                with T.serial(0, part) as before, T.serial(0, scan.lanes) as lane:
                    own = totals[(rows * parts + before) * scan.lanes + lane]
                    sums[lane] = wrapping.add(sums[lane], own)
            begin = part * scan.part
            with turns(tirx.min(expression(scan.part), scan.length - begin)) as k:
                with turns(lanes) as lane:
                    at = T.bind(place(outer, begin + k, first + lane))
                    if exclusive:
                        own = T.bind(cast(data[at], dtype))
                        out[at] = cast(sums[lane], output.dtype)
                        sums[lane] = wrapping.add(sums[lane], own)
                    else:
                        sums[lane] = wrapping.add(sums[lane], cast(data[at], dtype))
                        out[at] = cast(sums[lane], output.dtype)

    return loops(context, [context.tensor(0)], emit)


def _totals(scan: Scan, data: Any, place: Any, dtype: str) -> Any:
    """The sum of each part of each row, in a workspace; those of last parts are left out."""
    parts = scan.parts
    contiguous = not is_long(scan.inner)
    width = STRIDES if contiguous else scan.lanes
    blocks = scan.outer * scan.tiles * parts
    zero = tirx.const(0, dtype)
    totals = workspace(blocks * scan.lanes, dtype)
    with (
        launch(blocks) as block,
        T.If(block % parts * scan.part + scan.part < scan.length),
        T.Then(),
    ):
        rows, begin = block // parts, block % parts * scan.part
        outer, first = rows // scan.tiles, rows % scan.tiles * scan.lanes
        sums = mutable(dtype, width)
        with T.serial(0, width) as i:
            sums[i] = zero
        steps = tirx.min(expression(scan.part), scan.length - begin)
        with turns(steps // STRIDES if contiguous else steps) as k:
            with T.serial(0, width) as i:
                if contiguous:
                    at = place(outer, begin + k * STRIDES + i, 0)
                else:
                    at = place(outer, begin + k, tirx.min(first + i, scan.inner - 1))
                sums[i] = wrapping.add(sums[i], cast(data[at], dtype))
        if contiguous:
            with T.serial(1, width) as i:
                sums[0] = wrapping.add(sums[0], sums[i])
        with T.serial(0, scan.lanes) as i:
            totals[block * scan.lanes + i] = sums[i]
    return totals


@lowering(POSITIONS)
def lower_positions(context: Context) -> te.Tensor:
    """Each number, from its position."""
    first, step = context["first"], context["step"]

    def body(position: Any) -> Any:
        number = wrapping.convert(position * step + first, context.output.dtype)
        return context.element(0, ()) + number

    return te.compute(context.output.shape, body, name=POSITIONS)
