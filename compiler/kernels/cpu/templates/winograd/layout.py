"""Where the tiles, chunks and sums of a Winograd convolution are in memory."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.graph.packing.winograd import points_of
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import LINE, Convolution
from compiler.kernels.cpu.tiling import Tile
from compiler.kernels.sizes import at_hint
from compiler.kernels.tir.loops import store_vector, vector_at

MANY_CHUNKS = 8
"""From this many chunks on, blocks divide the chunks and transform their images themselves."""

SUMS_BYTES = 256 << 10
"""About the bytes of the sums of a group of filters, which are to stay in the cache."""


def whole_lines(elements: int) -> int:
    """Elements rounded up to cache lines."""
    return LINE * ceil_div(elements, LINE)


@dataclass(frozen=True)
class Region:
    """A buffer from an element on."""

    buffer: Var
    start: Any

    def after(self, elements: Any) -> "Region":
        """The region that begins so many elements later."""
        return Region(self.buffer, self.start + elements)

    def vector(self, offset: Any, lanes: int) -> Any:
        """The vector at an offset."""
        return vector_at(self.buffer, self.start + offset, lanes)

    def store(self, offset: Any, value: Any, lanes: int) -> Stmt:
        """Store a vector at an offset."""
        return store_vector(self.buffer, self.start + offset, value, lanes)


@dataclass(frozen=True)
class WinogradLayout:
    """A convolution in tiles of `results` x `results`.

    A register tile has `rows` filters and `vectors` of tiles; a chunk has `steps` of them, and
    `span` rows of tiles, or of a single row a part.
    """

    conv: Convolution
    results: int
    tile: Tile
    lanes: int

    @property
    def line_points(self) -> int:
        """The points along one axis."""
        return points_of(self.results)

    @property
    def points(self) -> int:
        """The points of the plane."""
        return self.line_points**2

    @cached_property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        rows, columns = self.conv.output
        return ceil_div(rows, self.results), ceil_div(columns, self.results)

    @property
    def panel(self) -> int:
        """Tiles of the image in a register tile."""
        return self.tile.vectors * self.lanes

    @property
    def run(self) -> int:
        """Tiles of a chunk, and lanes after its end."""
        return self.tile.steps * self.panel

    @cached_property
    def span(self) -> int:
        """Rows of tiles in a chunk."""
        return self.tile.span

    @cached_property
    def columns(self) -> int:
        """Columns of tiles in a chunk."""
        return min(self.grid[1], self.run) if self.tile.span == 1 else self.grid[1]

    @cached_property
    def parts(self) -> int:
        """Chunks of a row of tiles."""
        return ceil_div(self.grid[1], self.columns)

    @cached_property
    def image_chunks(self) -> int:
        """Chunks of one image."""
        return ceil_div(self.grid[0], self.span) * self.parts

    @cached_property
    def chunks(self) -> int:
        """Chunks of all images."""
        return self.conv.batch * self.image_chunks

    @cached_property
    def chunk_count(self) -> int:
        """Chunks of all images of the example, by which work is divided."""
        return at_hint(self.chunks)

    @cached_property
    def local(self) -> bool:
        """Whether the blocks that multiply a chunk also transform its image."""
        return self.chunk_count >= MANY_CHUNKS

    @property
    def tiles(self) -> int:
        """Register tiles of filters."""
        return ceil_div(self.conv.filters, self.tile.rows)

    @property
    def group_tiles(self) -> int:
        """Register tiles of filters in a group; chunks that are few have more groups."""
        most = max(1, SUMS_BYTES // (self.points * self.tile.rows * self.run * 4))
        if not self.local:
            most = min(most, max(1, self.tiles * self.chunk_count // MANY_CHUNKS))
        return ceil_div(self.tiles, ceil_div(self.tiles, most))

    @property
    def groups(self) -> int:
        """Groups of filters."""
        return ceil_div(self.tiles, self.group_tiles)

    @property
    def group_filters(self) -> int:
        """Filters of a group."""
        return self.group_tiles * self.tile.rows

    @property
    def sums_pitch(self) -> int:
        """Elements from the sums of one point to the next: a line more than what is used,
        lest they all fall into one set of the cache."""
        return whole_lines(self.group_filters * self.run) + LINE

    @property
    def sums_elements(self) -> int:
        """Elements of the sums of a chunk and a group."""
        return self.points * self.sums_pitch

    @property
    def point_pitch(self) -> int:
        """Elements from one point of a panel of the transformed image to the next."""
        return whole_lines(self.conv.channels * self.panel) + LINE

    @property
    def chunk_elements(self) -> int:
        """Elements of the transformed image of a chunk."""
        return self.tile.steps * self.points * self.point_pitch

    @property
    def plane(self) -> int:
        """Elements of every `results`-th row of a channel of a chunk, at one point."""
        rows = (self.tile.span + 1) * self.columns
        return whole_lines(max(rows, self.run + self.columns) + self.lanes)

    @property
    def line_steps(self) -> int:
        """Vectors of tiles in a row of a chunk."""
        return ceil_div(self.columns, self.lanes)

    @property
    def row_elements(self) -> int:
        """Elements of all rows of a channel of a chunk, and of one row as it is in the image."""
        line = (self.line_steps * self.lanes + 1) * self.results
        return self.results * self.line_points * self.plane + whole_lines(line)

    def vectors_of(self, place: "ChunkPlace") -> Any:
        """The vectors of tiles of a chunk."""
        return self.run // self.lanes

    def row_start(self, row: Any) -> Any:
        """Where a row of tiles begins in a plane."""
        return row * self.columns

    def line_start(self, row: Any) -> Any:
        """Where the results of a row of tiles begin in a line."""
        return row * (self.results * self.columns)

    def image_of(self, number: Any) -> Any:
        """The image of a chunk, counted over all images."""
        return number // self.image_chunks

    def chunk_of(self, number: Any) -> Any:
        """The chunk of its image."""
        return number % self.image_chunks

    @property
    def packing(self) -> str:
        """The packing of the weights: by groups, points, tiles of filters, and channels."""
        tiles = (self.groups, self.group_tiles, self.tile.rows)
        missing = self.groups * self.group_filters - self.conv.filters
        shape = ",".join(map(str, (*tiles, self.conv.channels, self.points)))
        return f"winograd:{self.results}|pad:{missing},0,0,0|reshape:{shape}|transpose:0,4,1,3,2"


@dataclass(frozen=True)
class ChunkPlace:
    """A chunk of an image, and the block that computes it."""

    image: Any
    chunk: Any
    block: Any
