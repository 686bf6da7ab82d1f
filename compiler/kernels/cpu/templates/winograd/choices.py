"""The ways to compute a convolution by Winograd's filtering, by estimates as in `tiling`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from compiler.graph.packing.winograd import POINTS
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import Convolution
from compiler.kernels.cpu.core import Core
from compiler.kernels.cpu.operands import FloatOperands
from compiler.kernels.cpu.templates.winograd.layout import WinogradLayout
from compiler.kernels.cpu.templates.winograd.nest import Winograd
from compiler.kernels.cpu.templates.winograd.sized import SizedWinogradLayout
from compiler.kernels.cpu.tiling import (
    FLOAT_STORES,
    SCRATCH_BYTES,
    Tile,
    ranked,
    register_tiles,
    step_slots,
)
from compiler.kernels.tir.fusion import FusionContext

OF_ONE_SIZE = 6
"""The most configs with tiles of one size."""

LEAST_SHARE = 0.6
"""The share of the sums that the registers could hold at which register tiles begin."""

ROW_SLOTS = 40
"""Slots of reading one row of a channel."""

ALONG_ROW_SLOTS = 7.5
"""Slots of transforming a vector of tiles of one row, a point."""

VECTOR_SLOTS = 1.1
"""Slots of transforming a vector along columns, a point of the plane."""

FAR_BYTE_SLOTS = 0.25
"""Slots in which a byte of the weights comes from memory."""

NEAR_BYTE_SLOTS = 0.1
"""Slots in which a byte comes from the last-level cache."""


@dataclass(frozen=True, slots=True)
class WinogradConfig:
    """The size of tiles of results, and the fields of the register tile and the chunk."""

    results: int
    rows: int
    vectors: int
    steps: int
    span: int


PricedWinograd = tuple[WinogradConfig, float]
"""A config, and the slots of one image."""


@dataclass(frozen=True)
class WinogradChoices:
    """The ways to compute a convolution; none unless it has 3 x 3 taps at strides of one.

    `cache` is the bytes of a core's second-level cache.
    """

    conv: Convolution
    around: FusionContext
    core: Core
    operands: FloatOperands
    cache: int

    @cached_property
    def kinds(self) -> list[list[PricedWinograd]]:
        """The best configs with tiles of each size, the least estimate first."""
        if not is_winograd(self.conv):
            return []
        return [kind for kind in map(self._of_size, POINTS) if kind]

    @cached_property
    def _slots(self) -> Mapping[WinogradConfig, float]:
        return {config: slots for kind in self.kinds for config, slots in kind}

    def nest(self, config: WinogradConfig) -> Winograd:
        """The launches of a config."""
        tile = Tile(config.rows, config.vectors, config.steps, config.span)
        layout = self._layout(self.conv, config.results, tile)
        return Winograd(self.conv, self.around, self.operands, layout, self._slots[config])

    def _of_size(self, results: int) -> list[PricedWinograd]:
        def cost(tile: Tile) -> float:
            layout = self._layout(self.conv.example, results, tile)
            return winograd_slots(layout, self.core, self.cache)

        candidates = _sized_tiles if self.around.symbols else _tiles
        tiles = ranked(candidates(self.conv, results, self.core), cost)
        return [
            (WinogradConfig(results, t.rows, t.vectors, t.steps, t.span), slots)
            for t, slots in islice(tiles, OF_ONE_SIZE)
        ]

    def _layout(self, conv: Convolution, results: int, tile: Tile) -> WinogradLayout:
        kind = SizedWinogradLayout if self.around.symbols else WinogradLayout
        return kind(conv, results, tile, self.core.lanes)


def is_winograd(conv: Convolution) -> bool:
    """Whether a convolution can be computed by Winograd's filtering."""
    plain = conv.kernel == (3, 3) and conv.strides == conv.dilations == (1, 1)
    return plain and conv.groups == 1 and conv.depth is None and all(conv.output)


def _tiles(conv: Convolution, results: int, core: Core) -> Iterator[Tile]:
    """Register tiles, each with chunks of whole rows, as even as can be, or of parts of a row."""
    rows, columns = (ceil_div(extent, results) for extent in conv.output)
    spans = sorted({ceil_div(rows, number) for number in range(1, rows + 1)})
    least = LEAST_SHARE * max(a * b for a, b in register_tiles(core))
    for height, vectors in register_tiles(core):
        panel = vectors * core.lanes
        most = SCRATCH_BYTES // (results * results * panel * 4)
        if height * vectors < least or not most:
            continue
        for span in spans:
            steps = ceil_div(span * columns, panel)
            if steps <= most:
                yield Tile(height, vectors, steps, span)
            elif span == 1 and _has_parts(conv):
                yield Tile(height, vectors, ceil_div(steps, ceil_div(steps, most)))


def _sized_tiles(conv: Convolution, results: int, core: Core) -> Iterator[Tile]:
    """Register tiles whose results fit on the stack, whatever the sizes are."""
    least = LEAST_SHARE * max(a * b for a, b in register_tiles(core))
    for rows, vectors in register_tiles(core):
        scratch = results * results * vectors * core.lanes * 4
        if rows * vectors >= least and scratch <= SCRATCH_BYTES:
            yield Tile(rows, vectors)


def _has_parts(conv: Convolution) -> bool:
    """Whether only the first and the last part of a row reach beyond the image."""
    after = conv.output[1] + 2 - conv.pads[1] - conv.image[1]
    return conv.pads[1] <= 1 and after <= 1


def winograd_slots(layout: WinogradLayout, core: Core, cache: int) -> float:
    """The slots of one image: multiplications, both transforms, and data on their way."""
    conv, tile, points = layout.conv, layout.tile, layout.points
    step = step_slots(
        core, tile.rows, tile.vectors, core.streamed(conv.channels * layout.panel * 4)
    )
    registers = conv.channels * step + tile.rows * tile.vectors
    multiply = tile.steps * points * layout.tiles * registers
    bytes = points * conv.channels * layout.tiles * tile.rows * 4
    far = bytes * FAR_BYTE_SLOTS / layout.image_chunks
    streamed = max(multiply, far, bytes * NEAR_BYTE_SLOTS)
    vectors = tile.steps * tile.vectors
    chunk = layout.chunk_elements * 4
    image = conv.channels * _image_slots(layout) + NEAR_BYTE_SLOTS * chunk * (chunk > cache)
    stores = layout.results**2 * (FLOAT_STORES.vector + layout.results)
    results = conv.filters * vectors * (VECTOR_SLOTS * 2 * points + stores)
    return layout.image_chunks * (streamed + image + results)


def _image_slots(layout: WinogradLayout) -> float:
    """The slots of transforming one channel of a chunk."""
    rows = layout.span * layout.results + 2
    row = ROW_SLOTS + layout.line_steps * ALONG_ROW_SLOTS * layout.line_points
    vectors = layout.tile.steps * layout.tile.vectors
    return rows * row + vectors * VECTOR_SLOTS * layout.line_points * layout.points
