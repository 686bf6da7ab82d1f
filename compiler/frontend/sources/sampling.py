"""Checks of operators that read or write images at other positions than their own."""

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler.frontend.node import ModelNode, checks
from compiler.frontend.semantics.windows import Windows
from compiler.net.attributes import Mismatch
from compiler.net.node import ShapeMismatch
from compiler.net.operators.shapes import has_rank, has_shape, listed
from compiler.net.spec import check_size

_MODES = (("bilinear", "nearest", "bicubic"), ("linear", "nearest", "cubic"))
"""The modes of GridSample before opset 20, and since."""


@checks("GridSample")
def _grid_sample(node: ModelNode) -> None:
    x, grid = node.shape(), node.shape(1)
    has_rank("its input", x, *((3,) if node.version >= 20 else (4, 4)))
    rank = len(x)
    mode = node.attributes.get("mode")
    if mode is not None and mode not in _MODES[node.version >= 20]:
        raise Mismatch(f"its mode {mode!r} is none of {', '.join(_MODES[node.version >= 20])}")
    if 0 in x[2:]:
        raise ShapeMismatch(f"its input {listed(x)} has no pixels")
    if len(grid) != rank or grid[0] != x[0] or grid[-1] != rank - 2:
        raise ShapeMismatch(f"its grid {listed(grid)} does not fit the input {listed(x)}")
    if mode in ("cubic", "bicubic") and rank != 4:
        raise Mismatch(f"its mode is cubic, for images only; its input is {listed(x)}")
    check_size("float32", (*x[:2], *grid[1:-1]))


@checks("AffineGrid")
def _affine_grid(node: ModelNode) -> None:
    theta = node.shape()
    size = _vector(node, 1, "size")
    has_rank("its theta", theta, 3, 3)
    if theta[1:] not in ((2, 3), (3, 4)):
        raise ShapeMismatch(f"its theta {listed(theta)} is not [N, 2, 3] or [N, 3, 4]")
    if size is None:
        return
    if len(size) != theta[1] + 2 or size[0] != theta[0] or min(size) < 1:
        raise ShapeMismatch(f"its size {size} does not fit its theta {listed(theta)}")
    check_size("float32", (*size[:1], *size[2:], theta[1]))


def _vector(node: ModelNode, index: int, name: str) -> list[int] | None:
    """The content of an input of one dimension, if it is a constant."""
    has_rank(f"its {name}", node.shape(index), 1, 1)
    return _known(node, index)


def _known(node: ModelNode, index: int) -> list[int] | None:
    value = node.input(index)
    if value is None or value.array is None:
        return None
    return [int(n) for n in np.asarray(value.array).reshape(-1)]


@checks("RoiAlign")
def _region_align(node: ModelNode) -> None:
    x, regions, batches = (node.shape(i) for i in range(3))
    has_rank("its input", x, 4, 4)
    if 0 in x[2:]:
        raise ShapeMismatch(f"its input {listed(x)} has no pixels")
    has_shape("its rois", regions, (*regions[:1], 4), "a region has two corners")
    has_shape("its batch_indices", batches, regions[:1], f"its rois are {listed(regions)}")
    count = max(1, node["sampling_ratio"])
    bins = [node.attributes.get(f"output_{side}", 1) * count for side in ("height", "width")]
    check_size("float32", (*regions[:1], x[1], *bins))


def _windows(node: ModelNode, image: Sequence[int], kernel: Sequence[int]) -> Windows:
    """The windows of a node; raises Mismatch if they do not fit the axes of an image."""
    windows = Windows.of(node, kernel)
    if reason := windows.misfit(image):
        raise ShapeMismatch(reason)
    if min(kernel, default=1) < 1:
        raise Mismatch(f"its kernel is {list(kernel)}")
    return windows


@checks("DeformConv")
def _deformable_convolution(node: ModelNode) -> None:
    x, weight, offset = (node.shape(i) for i in range(3))
    has_rank("its input", x, 3)
    has_rank("its weight", weight, len(x), len(x))
    groups, own = (node.attributes.get(name, 1) for name in ("group", "offset_group"))
    kernel = node.attributes.get("kernel_shape", weight[2:])
    if tuple(kernel) != weight[2:]:
        raise ShapeMismatch(f"its kernel_shape {list(kernel)} is not that of {listed(weight)}")
    window = _windows(node, x[2:], weight[2:])
    if x[1] != weight[1] * groups or weight[0] % groups or x[1] % own:
        reason = f"of {groups} groups and {own} offset groups does not fit {listed(x)}"
        raise ShapeMismatch(f"its weight {listed(weight)} {reason}")
    output = window.counts(x[2:])
    taps = prod(kernel)
    wanted = (x[0], own * taps * len(kernel), *output)
    has_shape("its offset", offset, wanted, f"the kernel is {list(kernel)}")
    if node.input(3) is not None:
        has_shape("its bias", node.shape(3), weight[:1], f"its weight is {listed(weight)}")
    if node.input(4) is not None:
        has_shape("its mask", node.shape(4), (x[0], own * taps, *output), "as its offset")
    check_size("float32", (x[0], x[1] * taps, *output))


@checks("Col2Im")
def _columns_to_image(node: ModelNode) -> None:
    x = node.shape()
    image, block = (_vector(node, i, name) for i, name in ((1, "image_shape"), (2, "block_shape")))
    has_rank("its input", x, 3, 3)
    if image is None or block is None:
        return
    window = _windows(node, image, block)
    if min(image, default=0) < 1 or len(block) != len(image):
        raise ShapeMismatch(f"its blocks {block} do not fit the image {image}")
    places = prod(window.counts(image))
    if x[1] % prod(block) or x[2] != places:
        wanted = f"[N, {prod(block)} C, {places}]"
        raise ShapeMismatch(f"its input is {listed(x)}, not {wanted} of blocks {block} in {image}")
    check_size("float32", (x[0], x[1] // prod(block), *image))


@checks("MaxUnpool")
def _max_unpool(node: ModelNode) -> None:
    x, index = node.shape(), node.shape(1)
    has_rank("its input", x, 3)
    has_shape("its indices", index, x, "there is one for each element")
    window = _windows(node, x[2:], node.attributes["kernel_shape"])
    own = window.unpooled(x)
    wanted = _vector(node, 2, "output_shape") if node.input(2) is not None else None
    if min(own) < 0:
        raise ShapeMismatch(f"its output would be {listed(own)}")
    if wanted is not None and (len(wanted) != len(own) or list(own[:2]) != wanted[:2]):
        raise ShapeMismatch(f"its output_shape is {wanted}, its output is {listed(own)} or larger")
    check_size("float32", tuple(wanted or own))
