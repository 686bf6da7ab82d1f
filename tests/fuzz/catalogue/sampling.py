"""Operators that read or write images at other positions than their own."""

from math import prod

import numpy as np

from tests.fuzz.catalogue.registry import generates
from tests.fuzz.catalogue.windows import image
from tests.fuzz.grower import Grower


@generates("GridSample")
def grid_sample(g: Grower, op: str) -> None:
    """Positions in the image and around it."""
    g.require(g.opset >= 16)
    x = image(g)
    batch, _, *sizes = g.values[x].shape
    rank = len(sizes)
    g.require(rank == 2 or (g.opset >= 20 and rank == 3))
    old = ["nearest", "bilinear", "bicubic"]
    mode = g.draw.choice(old if g.opset < 20 else ["nearest", "linear", "cubic"])
    g.require(rank == 2 or "cubic" not in mode)
    outer = [g.draw.randint(1, 4) for _ in range(rank)]
    grid = g.like(x, (batch, *outer, rank), -1.6, 1.6)
    padding = g.draw.choice(["zeros", "border", "reflection"])
    align = int(g.draw.chance(0.5))
    g.emit(op, [x, grid], mode=mode, padding_mode=padding, align_corners=align)


@generates("AffineGrid")
def affine_grid(g: Grower, op: str) -> None:
    """Transformations of images and volumes."""
    g.require(g.opset >= 20)
    rank, batch = g.draw.choice([2, 3]), g.draw.randint(1, 2)
    shape = (batch, rank, rank + 1)
    theta = g.tensor(("float32",), lambda s: s == shape, lambda: shape)
    size = [batch, 2, *(g.draw.randint(1, 5) for _ in range(rank))]
    g.emit(op, [theta, g.ints(size)], align_corners=int(g.draw.chance(0.5)))


@generates("RoiAlign")
def region_align(g: Grower, op: str) -> None:
    """Regions in the image, across its border and outside."""
    g.require(g.opset >= 10)
    x = image(g)
    g.require(len(g.values[x].shape) == 4)
    total, batch = g.draw.randint(1, 4), g.values[x].shape[0]
    regions = g.like(x, (total, 4), -2.0, 9.0)
    which = g.constant(np.array([g.draw.randint(0, batch - 1) for _ in range(total)]))
    g.emit(
        op,
        [x, regions, which],
        output_height=g.draw.randint(1, 3),
        output_width=g.draw.randint(1, 3),
        sampling_ratio=g.draw.randint(1, 3),
        mode=g.draw.choice(["avg", "max"]),
        spatial_scale=g.draw.choice([0.25, 0.5, 1.0]),
    )


@generates("DeformConv")
def deformable_convolution(g: Grower, op: str) -> None:
    """Groups of channels and of offsets, with or without a mask and a bias."""
    g.require(g.opset >= 19)
    x = image(g)
    batch, channels, *sizes = g.values[x].shape
    g.require(len(sizes) == 2)
    groups, own = (g.draw.choice([n for n in (1, 2, channels) if channels % n == 0]) for _ in "go")
    kernel = [g.draw.randint(1, min(3, n)) for n in sizes]
    output = [n - k + 1 for n, k in zip(sizes, kernel, strict=True)]
    filters, taps = groups * g.draw.randint(1, 3), own * prod(kernel)
    weight = g.like(x, (filters, channels // groups, *kernel))
    offset = g.like(x, (batch, 2 * taps, *output))
    inputs = [x, weight, offset]
    if g.draw.chance(0.5):
        bias = g.like(x, (filters,)) if g.draw.chance(0.5) else ""
        inputs += [bias, g.like(x, (batch, taps, *output))]
    g.emit(op, inputs, group=groups, offset_group=own, kernel_shape=kernel)


@generates("Col2Im")
def columns_to_image(g: Grower, op: str) -> None:
    """Overlapping and distant blocks."""
    g.require(g.opset >= 18)
    rank = g.draw.choice([1, 2, 2, 3])
    block = [g.draw.randint(1, 3) for _ in range(rank)]
    sizes = [k + g.draw.randint(0, 4) for k in block]
    strides = [g.draw.randint(1, 2) for _ in range(rank)]
    places = prod((n - k) // s + 1 for n, k, s in zip(sizes, block, strides, strict=True))
    shape = (g.draw.randint(1, 2), g.draw.randint(1, 3) * prod(block), places)
    x = g.tensor(("float32",), lambda s: s == shape, lambda: shape)
    g.emit(op, [x, g.ints(sizes), g.ints(block)], strides=strides)


@generates("MaxUnpool")
def max_unpool(g: Grower, op: str) -> None:
    """The elements and places of a MaxPool."""
    g.require(g.opset >= 9)
    x = image(g)
    rank = len(g.values[x].shape) - 2
    kernel = [g.draw.randint(1, 2) for _ in range(rank)]
    g.require(all(n % k == 0 for n, k in zip(g.values[x].shape[2:], kernel, strict=True)))
    values, places = g.emit("MaxPool", [x], 2, kernel_shape=kernel, strides=kernel)
    g.emit(op, [values, places], kernel_shape=kernel, strides=kernel)
