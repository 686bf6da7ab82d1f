"""Where to fuse a depthwise convolution with the pointwise one that follows."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from compiler.graph.cost import GPU

TILE_ROWS = 128
"""Output channels of the largest MMA tile; further tiles recompute the depthwise convolution."""

DEPTHWISE_FLOPS, CACHE_BYTES = 10_000.0, 4_200.0
"""FLOPs of depthwise convolutions, and bytes read from L2, per ns on all SMs of an H200, by the
estimates of the depthwise and the contraction templates."""


@dataclass(frozen=True, slots=True)
class ConvolutionShapes:
    """The shapes of an ONNX Conv's image, weights and result, and its attributes."""

    image: tuple[int, ...]
    weight: tuple[int, ...]
    result: tuple[int, ...]
    attributes: Mapping[str, Any]

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each tap of each result."""
        return 2 * prod(self.result) * prod(self.weight[1:])

    @property
    def is_depthwise(self) -> bool:
        """Whether each output channel is computed from one input channel, and the reverse."""
        channels = self.image[1]
        depthwise = self.attributes["group"] == channels == self.result[1]
        return depthwise and channels > 1 and self.weight[1] == 1

    @property
    def is_pointwise(self) -> bool:
        """Whether each pixel of the result depends on the same pixel of the image only."""
        moved = [*(self.attributes["pads"])]
        moved += [stride - 1 for stride in self.attributes["strides"]]
        dense = self.attributes["group"] == 1 and prod(self.weight[2:]) == 1
        return dense and not any(moved) and self.image[2:] == self.result[2:]


def are_separable(depthwise: ConvolutionShapes, pointwise: ConvolutionShapes) -> bool:
    """Whether two convolutions are a depthwise separable one, so that they can be fused."""
    fits = 3 <= len(depthwise.image) <= 5 and depthwise.result == pointwise.image
    full = prod(depthwise.image) > 0 and prod(pointwise.result) > 0
    return fits and full and depthwise.is_depthwise and pointwise.is_pointwise


def pays(
    depthwise: ConvolutionShapes,
    pointwise: ConvolutionShapes,
    element_bytes: int,
) -> bool:
    """Whether fusing saves more time than it takes for recomputation, by bytes and FLOPs.

    It saves a launch, and writing and reading the intermediate image. Every tile of `TILE_ROWS`
    output channels but the first recomputes the depthwise convolution, and reads its image again.
    """
    again = ceil(pointwise.weight[0] / TILE_ROWS) - 1
    between, image = (prod(s) * element_bytes for s in (depthwise.result, depthwise.image))
    saved = GPU.launch_ns + 2 * between / GPU.bytes_per_ns
    return again * (depthwise.flops / DEPTHWISE_FLOPS + image / CACHE_BYTES) < saved
