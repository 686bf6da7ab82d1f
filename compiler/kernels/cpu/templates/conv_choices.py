"""The ways to compute a convolution: what lanes are along, and register tiles, by estimate."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import prod
from typing import Any

from compiler.kernels.cpu.convolution import Convolution
from compiler.kernels.cpu.core import Core
from compiler.kernels.cpu.operands import ConvOperands
from compiler.kernels.cpu.templates.channel_lanes import ChannelLanes, SizedChannels
from compiler.kernels.cpu.templates.image_lanes import ImageLanes
from compiler.kernels.cpu.templates.nests import LOCAL_UNITS, Nest
from compiler.kernels.cpu.templates.panel_lanes import PanelLanes
from compiler.kernels.cpu.templates.places import Taps
from compiler.kernels.cpu.templates.row_lanes import RowLanes, SizedRows
from compiler.kernels.cpu.templates.sized_lanes import SizedLanes, SizedPositions
from compiler.kernels.cpu.tiling import (
    PricedTile,
    Tile,
    channel_tiles,
    flat_tiles,
    image_tiles,
    row_tiles,
    sized_tiles,
)
from compiler.kernels.tir.fusion import FusionContext

IMAGE, PANELS, CHANNELS, ROWS = "image", "panels", "channels", "rows"
"""The axes of lanes: positions of the image or of copied panels, output channels, or the rows of
one channel's result, of which a tile has several."""

SIZED = "sized"
SIZED_CHANNELS = "sized channels"
SIZED_ROWS = "sized rows"
SIZED_POSITIONS = "sized positions"
"""The axes of lanes for sizes that a run decides: positions of planes, across rows, output
channels, the rows of one channel's result, or positions of the image itself."""

COPIED = (PANELS, SIZED, SIZED_CHANNELS)
"""The axes of lanes of nests whose planes may be a copy of what one tap reads."""

NESTS = {
    PANELS: PanelLanes,
    IMAGE: ImageLanes,
    CHANNELS: ChannelLanes,
    ROWS: RowLanes,
    SIZED: SizedLanes,
    SIZED_CHANNELS: SizedChannels,
    SIZED_POSITIONS: SizedPositions,
    SIZED_ROWS: SizedRows,
}

OF_ONE_KIND = 10
"""The most configs with lanes along the same."""

NEAR = 1.6
"""How many times the least estimate of its kind a config may have."""


@dataclass(frozen=True, slots=True)
class ConvConfig:
    """The axis of lanes, and the fields of the tile."""

    lanes: str
    rows: int
    vectors: int
    steps: int = 1
    span: int = 1

    @property
    def tile(self) -> Tile:
        """The register tile."""
        return Tile(self.rows, self.vectors, self.steps, self.span)


PricedConfig = tuple[ConvConfig, float]
"""A config, and the slots of one group of one image."""


@dataclass(frozen=True)
class ConvChoices:
    """The nests of a convolution; `cache` is the bytes of a core's second-level cache."""

    conv: Convolution
    around: FusionContext
    core: Core
    operands: ConvOperands
    cache: int

    @cached_property
    def kinds(self) -> list[list[PricedConfig]]:
        """The configs of each kind by their estimates, the likeliest kind first.

        Floats that are in memory as they are read are copied into panels only where that was
        measured; those with strides are copied anyway.
        """
        kinds = [kind for kind in self._kinds() if kind]
        return sorted(kinds, key=lambda kind: (self.is_unusual(kind[0][0]), kind[0][1]))

    def is_unusual(self, config: ConvConfig) -> bool:
        """Whether no estimate says that a config is better than others."""
        return config.lanes == PANELS and not self.operands.panels and self.conv.pointwise

    @property
    def likeliest(self) -> Nest:
        """The nest of the least estimate."""
        return self.nest(*self.kinds[0][0])

    def nest(self, config: ConvConfig, slots: float) -> Nest:
        """The nest of a config."""
        flat = self._is_flat(config.lanes)
        common = (self.conv, self.around, config.tile, self.core.lanes, flat, slots)
        taps = Taps(self.conv.kernel)
        near = self.core.near_bytes
        rest = (self.conv.planes, taps, self.operands, self.cache, near)
        return NESTS[config.lanes](*common, *rest)

    def _kinds(self) -> Iterator[list[PricedConfig]]:
        """The configs of each kind by their estimates; of equals an image's lanes come first."""
        conv, core, stores = self.conv.example, self.core, self.operands.stores
        if self.around.symbols:
            rows = row_tiles(conv, core, stores) if self._has_sized_rows else []
            in_place = self._flat and self.operands.reads_image and not conv.depth
            positions = SIZED_POSITIONS if in_place else SIZED
            yield _named(SIZED_ROWS, rows) or _named(positions, sized_tiles(conv, core, stores))
            yield self._channels(SIZED_CHANNELS)
            return
        if self._fits_panels:
            yield _named(PANELS, flat_tiles(conv, core, stores, panels=True))
        if not (self._fits_panels and self.operands.panels):
            if not self._flat:
                yield _named(IMAGE, image_tiles(conv, core, stores))
            elif prod(conv.output) >= core.lanes:
                yield _named(IMAGE, flat_tiles(conv, core, stores))
        if self._has_rows:
            yield _named(ROWS, row_tiles(conv, core, stores))
        yield self._channels(CHANNELS)

    def _channels(self, lanes: str) -> list[PricedConfig]:
        """The configs with lanes along output channels."""
        output = self.conv.example.output
        line = prod(output) if self._is_flat(lanes) else output[1]
        tiles = channel_tiles(self.conv.example, self.core, line, self.operands.stores)
        return _named(lanes, tiles)

    @property
    def _has_rows(self) -> bool:
        """Whether rows of a result read the same rows of one channel, in steps of one column."""
        conv = self.conv
        return self._is_depthwise and conv.strides[1] == 1 and conv.output[0] > 1

    @property
    def _has_sized_rows(self) -> bool:
        return self._is_depthwise and self.conv.planes.regular

    @property
    def _is_depthwise(self) -> bool:
        """Whether results read several rows of one channel."""
        conv = self.conv
        return conv.channels == conv.filters == 1 and not conv.depth and conv.kernel[0] > 1

    @property
    def _flat(self) -> bool:
        """Whether chunks are runs of an image's positions; slices that are rows have none."""
        slices_are_rows = self.conv.depth is not None and self.around.spatial == 2
        return self.conv.pointwise and self.around.flat and not slices_are_rows

    def _is_flat(self, lanes: str) -> bool:
        """Whether chunks with lanes along an axis are runs of an image's positions.

        Planes that are copied are the result's positions where there is one tap.
        """
        one_tap = self.conv.kernel == (1, 1) and not self.conv.depth and self.around.flat
        return self._flat or (lanes in COPIED and one_tap)

    @property
    def _fits_panels(self) -> bool:
        conv = self.conv
        few = conv.images * conv.groups < LOCAL_UNITS and not conv.depth
        return conv.kernel == (1, 1) and self.around.flat and few


def worth_measuring(kinds: Iterable[Sequence[tuple[Any, float]]]) -> list[tuple[Any, float]]:
    """The likeliest config of each kind in order, then the others near them by their estimates."""
    kinds = list(kinds)
    near = (c for kind in kinds for c in kind[1:] if c[1] <= NEAR * kind[0][1])
    return [*(kind[0] for kind in kinds), *sorted(near, key=lambda priced: priced[1])]


def _named(lanes: str, tiles: list[PricedTile]) -> list[PricedConfig]:
    """Tiles as configs."""
    ranked = islice(tiles, OF_ONE_KIND)
    return [(ConvConfig(lanes, t.rows, t.vectors, t.steps, t.span), slots) for t, slots in ranked]
