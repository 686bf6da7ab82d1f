"""The results of a chunk from its sums: along the columns, then along the rows, and stored."""

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.cpu.operands import FloatOperands
from compiler.kernels.cpu.templates.winograd.layout import ChunkPlace, Region, WinogradLayout
from compiler.kernels.cpu.templates.winograd.lines import LineTransforms
from compiler.kernels.sizes import expression
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import interleaved, loop_over, scratch, sequence, vector_loop


@dataclass(frozen=True)
class ResultTransform:
    """Transforms one filter of a chunk after another."""

    layout: WinogradLayout
    around: FusionContext
    operands: FloatOperands

    def group(self, place: ChunkPlace, group: Any, sums: Region, weights: Var) -> Stmt:
        """The results of a group of filters."""
        layout = self.layout
        elements, points = layout.results * layout.run, layout.results * layout.line_points
        lines, allocate_lines = scratch("lines", layout.results * elements)
        half, allocate_half = scratch("half", points * layout.lanes)

        def one(filter: Any) -> Stmt:
            number = group * layout.group_filters + filter
            bias = self.operands.bias(number, weights, 0)
            own = sums.after(filter * layout.run)
            transformed = self._transformed(place, own, Region(half, 0), Region(lines, 0))
            stored = self._stored(place, number, bias, Region(lines, 0))
            body = sequence([transformed, stored])
            if layout.groups * layout.group_filters == layout.conv.filters:
                return body
            return tirx.IfThenElse(number < layout.conv.filters, body, None)

        finish = loop_over("filter", layout.group_filters, one)
        return sequence([allocate_lines, allocate_half, finish])

    def _transformed(self, place: ChunkPlace, sums: Region, half: Region, lines: Region) -> Stmt:
        """The lines of one filter's results."""
        layout = self.layout
        lanes = layout.lanes

        def vector(number: Any) -> Stmt:
            own = sums.after(number * lanes)
            target = lines.after(number * (lanes * layout.results))
            columns = loop_over(
                "column", layout.line_points, lambda j: self._along_column(own, j, half)
            )
            rows = loop_over("row", layout.results, lambda i: self._along_row(half, i, target))
            return sequence([columns, rows])

        return loop_over("vector", layout.vectors_of(place), vector)

    def _along_column(self, sums: Region, column: Any, half: Region) -> Stmt:
        layout = self.layout
        count, lanes = layout.line_points, layout.lanes
        values = [
            sums.vector((i * count + column) * layout.sums_pitch, lanes) for i in range(count)
        ]
        code, done = LineTransforms(layout.results, lanes).result(values)
        stores = [half.store((i * count + column) * lanes, v, lanes) for i, v in enumerate(done)]
        return sequence([*code, *stores])

    def _along_row(self, half: Region, row: Any, lines: Region) -> Stmt:
        layout = self.layout
        count, lanes = layout.line_points, layout.lanes
        values = [half.vector((row * count + j) * lanes, lanes) for j in range(count)]
        code, done = LineTransforms(layout.results, lanes).result(values)
        mixed = interleaved(done, lanes)
        start = row * (layout.results * layout.run)
        return sequence([*code, lines.store(start, mixed, lanes * layout.results)])

    def _stored(self, place: ChunkPlace, number: Any, bias: Any, lines: Region) -> Stmt:
        """Store the epilogue of one filter's results in all rows of the chunk."""
        layout = self.layout
        results, conv, span = layout.results, layout.conv, layout.span
        width = results * layout.columns
        part = place.chunk % layout.parts

        def stretch(row: Any, start: Any, extent: Any) -> Stmt:
            def pixel(x: Any) -> Stmt:
                value = tirx.BufferLoad(lines.buffer, [lines.start + start + x])
                value = value if bias is None else value + bias
                return self.around.store(value, [place.image, number, row, part * width + x])

            return vector_loop(extent, layout.lanes, pixel)

        def line(tile: Any, i: Any) -> Stmt:
            row = (place.chunk // layout.parts * span + tile) * results + i
            start = i * (results * layout.run) + layout.line_start(tile)
            extent = tirx.min(expression(width), conv.output[1] - part * width)
            return tirx.IfThenElse(row < conv.output[0], stretch(row, start, extent), None)

        return loop_over(
            "tile", span, lambda tile: loop_over("line", results, lambda i: line(tile, i))
        )
