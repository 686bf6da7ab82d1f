"""A Winograd convolution whose image's sizes a run decides.

A chunk has as many whole rows of tiles as fit a register tile's vectors, or a part of a row; what
is multiplied are as many vectors as it has tiles.
"""

from functools import cached_property
from typing import Any

from tvm import tirx

from compiler.kernels.cpu.templates.winograd.layout import (
    ChunkPlace,
    WinogradLayout,
    whole_lines,
)
from compiler.kernels.sizes import as_size, expression, is_long
from compiler.tensors.arithmetic import minimum


class SizedWinogradLayout(WinogradLayout):
    """A convolution in tiles whose numbers of rows and columns are extents; chunks have one step.

    Memory is for as many tiles as vectors have, whatever the sizes are.
    """

    @cached_property
    def columns(self) -> int:
        """Columns of tiles in a chunk."""
        return as_size(minimum(self.grid[1], self.run))

    @cached_property
    def span(self) -> int:
        """Rows of tiles in a chunk."""
        return as_size(minimum(self.grid[0], self.run // self.columns))

    @property
    def plane(self) -> int:
        """Elements of every `results`-th row of a channel of a chunk, at one point."""
        return whole_lines(2 * self.run + self.lanes)

    @property
    def row_elements(self) -> int:
        """Elements of all rows of a channel of a chunk, and of one row as it is in the image."""
        line = (self.run + 1) * self.results
        return self.results * self.line_points * self.plane + whole_lines(line)

    def vectors_of(self, place: ChunkPlace) -> Any:
        """The vectors of tiles of a chunk; at most those of a register tile, as is seen so."""
        rows = self.grid[0] - place.chunk // self.parts * self.span
        tiles = tirx.min(expression(self.span), rows) * self.columns
        most = tirx.const(self.tile.vectors, "int32")
        return tirx.min(tirx.floordiv(tiles + (self.lanes - 1), self.lanes), most)

    def row_start(self, row: Any) -> Any:
        """Where a row of tiles begins in a plane: at most after all of them, as is seen so."""
        return tirx.min(row * self.columns, tirx.const(self.run, "int32"))

    def line_start(self, row: Any) -> Any:
        """Where the results of a row of tiles begin in a line: with room for them, as is seen."""
        width = self.results * self.columns
        return tirx.min(row * width, self.results * self.run - width)

    def image_of(self, number: Any) -> Any:
        """The image of a chunk, counted over all images."""
        return number // self.image_chunks if is_long(self.conv.batch) else 0

    def chunk_of(self, number: Any) -> Any:
        """The chunk of its image."""
        return number % self.image_chunks if is_long(self.conv.batch) else number
