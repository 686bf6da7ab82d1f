"""Where a depthwise convolution and the pointwise one behind it should be one kernel."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from compiler.graph.cost import GPU, Roofline

TILE_ROWS = 128
"""Output channels of the largest tile; the tiles of other channels compute the window again."""

WINDOW_FLOPS, CACHE_BYTES = 10_000.0, 4_200.0
"""FLOPs of windows, and bytes of images from the cache, in a ns of all multiprocessors: what the
depthwise and the contraction templates reach on an H200, as their own estimates have it."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """The shapes of an ONNX Conv's image, weights and result, and its attributes."""

    image: tuple[int, ...]
    weight: tuple[int, ...]
    result: tuple[int, ...]
    attributes: Mapping[str, Any]

    @property
    def flops(self) -> int:
        """A product and a sum for each tap of each result."""
        return 2 * prod(self.result) * prod(self.weight[1:])

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel has a window, and one result, of its own."""
        channels = self.image[1]
        own = self.attributes.get("group", 1) == channels == self.result[1]
        return own and channels > 1 and self.weight[1] == 1

    @property
    def is_pointwise(self) -> bool:
        """Whether each pixel's result depends on the channels of that pixel only."""
        moved = [*(self.attributes.get("pads") or ())]
        moved += [stride - 1 for stride in self.attributes.get("strides") or ()]
        dense = self.attributes.get("group", 1) == 1 and prod(self.weight[2:]) == 1
        return dense and not any(moved) and self.image[2:] == self.result[2:]


def are_separable(depthwise: Convolution, pointwise: Convolution) -> bool:
    """Whether the second convolution can take the first one's result pixel by pixel."""
    fits = 3 <= len(depthwise.image) <= 5 and depthwise.result == pointwise.image
    full = prod(depthwise.image) > 0 and prod(pointwise.result) > 0
    return fits and full and depthwise.is_depthwise and pointwise.is_pointwise


def pays(
    depthwise: Convolution, pointwise: Convolution, element_bytes: int, roofline: Roofline = GPU
) -> bool:
    """Whether one kernel saves more than it computes and reads again, by bytes and FLOPs.

    It saves a launch, and writing and reading what lies between. Every tile of `TILE_ROWS` output
    channels but the first computes the windows again, and reads their image again.
    """
    again = ceil(pointwise.weight[0] / TILE_ROWS) - 1
    between, image = (prod(s) * element_bytes for s in (depthwise.result, depthwise.image))
    saved = roofline.launch_ns + 2 * between / roofline.bytes_per_ns
    return again * (depthwise.flops / WINDOW_FLOPS + image / CACHE_BYTES) < saved
