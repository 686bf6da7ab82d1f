"""The image of a chunk, transformed: first along its rows, then along its columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import PrimType, Var
from tvm.tirx import Stmt

from compiler.kernels.cpu.operands import FloatOperands
from compiler.kernels.cpu.planes import clear
from compiler.kernels.cpu.templates.winograd.layout import ChunkPlace, Region, WinogradLayout
from compiler.kernels.cpu.templates.winograd.lines import LineTransforms
from compiler.kernels.sizes import expression
from compiler.kernels.tir.loops import loop_over, sequence, spread
from compiler.kernels.tir.runs import IndexRun


@dataclass(frozen=True)
class ImageTransform:
    """Transforms one channel of a chunk after another.

    The rows of a channel are by their remainder modulo the results of a tile, so that the same
    row of all tiles is consecutive. `rows` has room for those of every block.
    """

    layout: WinogradLayout
    operands: FloatOperands
    rows: Var

    def start(self, block: Any) -> Stmt:
        """Clear a block's rows: lanes after the end of a chunk read what no row has written."""
        rows = block * self.layout.row_elements
        count = self.layout.row_elements
        return sequence(clear(self.operands, self.rows, rows, count, self.layout.lanes))

    def channel(self, place: ChunkPlace, channel: Any, target: Region) -> Stmt:
        """Transform a channel into its rows of all points and panels of a target."""
        tile, lanes = self.layout.tile, self.layout.lanes
        rows = Region(self.rows, place.block * self.layout.row_elements)
        target = target.after(channel * self.layout.panel)

        def panel(number: Any) -> Stmt:
            first = number * self.layout.panel
            start = target.after(number * (self.layout.points * self.layout.point_pitch))

            def vector(v: Any) -> Stmt:
                return self._columns(rows.after(first + v * lanes), start.after(v * lanes))

            own = self.layout.vectors_of(place)
            return loop_over("vector", tile.vectors if isinstance(own, int) else own, vector)

        count = self.layout.span * self.layout.results + 2
        filled = loop_over("row", count, lambda row: self._row(place, channel, row, rows))
        return sequence([filled, loop_over("panel", tile.steps, panel)])

    def _row(self, place: ChunkPlace, channel: Any, row: Any, rows: Region) -> Stmt:
        """Transform a row of the image, zero outside."""
        layout, conv = self.layout, self.layout.conv
        results = layout.results
        line = rows.after(results * layout.line_points * layout.plane)
        y = place.chunk // layout.parts * (layout.span * results) + row - conv.pads[0]
        inside = tirx.all(y >= 0, y < conv.image[0])
        outside = sequence(self._clear(line, 0, results * layout.columns + 2))
        copied = self._copy(place, [place.image, channel], y, line)
        start = row % results * (layout.line_points * layout.plane)
        start = start + layout.row_start(row // results)
        target = rows.after(start)

        def step(number: Any) -> Stmt:
            first = number * layout.lanes
            return self._along_row(line.after(first * results), target.after(first))

        filled = tirx.IfThenElse(inside, copied, outside)
        return sequence([filled, loop_over("step", layout.line_steps, step)])

    def _clear(self, line: Region, first: Any, count: Any) -> list[Stmt]:
        start = line.start + first
        lanes = self.layout.lanes
        return clear(self.operands, line.buffer, start, count, lanes)

    def _copy(self, place: ChunkPlace, lead: Sequence[Any], y: Any, line: Region) -> Stmt:
        """Copy what a chunk reads of a row, of which it may have a part, zero outside."""
        layout, conv = self.layout, self.layout.conv
        width = layout.results * layout.columns
        begin = place.chunk % layout.parts * width - conv.pads[1]
        columns = IndexRun.between(begin, begin + (width + 2), conv.image[1])
        left, right = columns.first - begin, columns.first + columns.length - begin

        def copy(x: Any) -> Stmt:
            value = self.operands.element(lead, y, x)
            return tirx.BufferStore(line.buffer, value, [line.start + x - begin])

        before = self._clear(line, 0, left)
        end = tirx.max(tirx.const(0, "int32"), right)
        after = self._clear(line, end, expression(width + 2) - end)
        return sequence([*before, columns.vectors(layout.lanes, copy), *after])

    def _along_row(self, line: Region, target: Region) -> Stmt:
        """Transform a vector of tiles of one row."""
        layout = self.layout
        results, lanes = layout.results, layout.lanes
        kind = PrimType(f"float32x{results * lanes}")
        wide = [
            tirx.Bind(Var("wide", kind), line.vector(first, results * lanes))
            for first in (0, results)
        ]
        own, next_ = (spread(bound.var, lanes, results) for bound in wide)
        elements = [*map(own, range(results)), next_(0), next_(1)]
        code, values = LineTransforms(results, lanes).image(elements)
        stores = [target.store(j * layout.plane, v, lanes) for j, v in enumerate(values)]
        return sequence([*wide, *code, *stores])

    def _columns(self, rows: Region, target: Region) -> Stmt:
        """Transform a vector of tiles along the columns, of every point along the rows."""
        layout = self.layout
        results, count, lanes = layout.results, layout.line_points, layout.lanes

        def column(j: Any) -> Stmt:
            places = [
                (i % results * count + j) * layout.plane + i // results * layout.columns
                for i in range(count)
            ]
            elements = [rows.vector(place, lanes) for place in places]
            code, values = LineTransforms(results, lanes).image(elements)
            pitch = layout.point_pitch
            stores = [target.store((i * count + j) * pitch, v, lanes) for i, v in enumerate(values)]
            return sequence([*code, *stores])

        return loop_over("column", count, column)
