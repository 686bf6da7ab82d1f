"""The rule for RoiAlign: samples of regions of an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.sampling import Image, component, floating
from compiler.frontend.rules.types import in_type
from compiler.frontend.unsupported import NeedsHost
from compiler.net.graph import Value
from compiler.net.operators import check_size

_SIDES = ("height", "width")


@rule("RoiAlign")
def rewrite_region_align(call: Call) -> list[Value]:
    """The mean or maximum of samples of each bin.

    Without a number of samples, a region has as many along a bin as the bin has pixels: regions
    that are constants are grouped by these numbers, others need the host.
    """
    count = call["sampling_ratio"]
    x = floating(call, call.data)
    regions = call.operand(1)
    batches = call.operand(2)
    batch, channels, *sizes = x.shape
    bins = [call.attributes.get(f"output_{n}", 1) for n in _SIDES]
    call.check_indices(2, 0, batch - 1)
    if 0 in (*x.shape, regions.shape[0]):
        return [call.filled(0, (regions.shape[0], channels, *bins), call.data.dtype)]
    image = Image(call, _together(call, x), (batch, *sizes), "border")
    spans = [_span(image, in_type(call, regions, x.dtype), i) for i in (0, 1)]
    batches = in_type(call, batches, x.dtype)
    if count < 1:
        result = _grouped(image, spans, batches, bins)
    else:
        result = _aligned(image, spans, batches, bins, [count, count])
    return [in_type(call, result, call.data.dtype)]


@dataclass(frozen=True)
class _Span:
    """The first position and the extent of all regions along an axis: [regions, 1] each."""

    first: Value
    extent: Value

    def of(self, call: Call, rows: Value) -> "_Span":
        """Those of some regions."""
        return _Span(*(call.one("Gather", v, rows, axis=0) for v in (self.first, self.extent)))


def _span(image: Image, regions: Value, axis: int) -> _Span:
    """The span of regions [left, top, right, bottom]; before opset 16 at least a pixel long."""
    call = image.call
    half = call["coordinate_transformation_mode"] == "half_pixel"
    half = half and call.version >= 16
    ends = [component(call, regions, number, 1) for number in (1 - axis, 3 - axis)]
    scale = call["spatial_scale"]
    column = [regions.shape[0], 1]
    first, last = (call.reshaped(image.op("Mul", end, scale), column) for end in ends)
    if half:
        first, last = image.op("Sub", first, 0.5), image.op("Sub", last, 0.5)
    extent = image.op("Sub", last, first)
    return _Span(first, extent if half else image.op("Max", extent, 1.0))


def _grouped(image: Image, spans: Sequence[_Span], batches: Value, bins: Sequence[int]) -> Value:
    """The results of regions that have as many samples as pixels, in the order of the regions."""
    call = image.call
    if any(span.extent.array is None for span in spans):
        raise NeedsHost("each region decides how often it is sampled", "set sampling_ratio")
    lengths = [
        np.ceil(span.extent.content[:, 0] / np.asarray(n, span.extent.content.dtype))
        for span, n in zip(spans, bins, strict=True)
    ]
    counts = np.maximum(np.nan_to_num(np.stack(lengths, 1)), 0).astype(np.int64)
    groups, numbers = np.unique(counts, axis=0, return_inverse=True)
    rows = [np.flatnonzero(numbers.reshape(-1) == number) for number in range(len(groups))]
    results: list[Value] = []
    for chosen, group in zip(rows, groups.tolist(), strict=True):
        index = call.builder.constant(chosen, "int64")
        some = [span.of(call, index) for span in spans]
        results.append(_aligned(image, some, call.one("Gather", batches, index), bins, group))
    joined = results[0] if len(results) == 1 else call.one("Concat", *results, axis=0)
    order = call.builder.constant(np.argsort(np.concatenate(rows)), "int64")
    return call.one("Gather", joined, order, axis=0)


def _aligned(
    image: Image,
    spans: Sequence[_Span],
    batches: Value,
    bins: Sequence[int],
    counts: Sequence[int],
) -> Value:
    """The bins of regions that have the same numbers of samples: [regions, channels, *bins]."""
    call = image.call
    total = batches.shape[0]
    channels = image.pixels.shape[1]
    if 0 in counts:
        return call.filled(0, (total, channels, *bins), image.pixels.dtype)
    shape = [total, bins[0] * counts[0], bins[1] * counts[1]]
    check_size(image.pixels.dtype, (channels, *shape))
    if not call.builder.folds(8 * sum(shape[1:]), 0):
        reason = f"its regions are sampled at {shape[1]:,} x {shape[2]:,} positions"
        raise NeedsHost(reason, "set sampling_ratio, or give smaller regions")
    axes = [_samples(image, spans[i], i, bins[i], counts[i]) for i in (0, 1)]
    full = call.expanded(call.reshaped(batches, [total, 1, 1]), shape)
    flat = [1, 1, prod(shape)]
    best = call["mode"] == "max"
    values: list[Value] = []
    for rows, columns in product(*[axis.taps for axis in axes]):
        places = [full, *(call.expanded(tap[0], shape) for tap in (rows, columns))]
        read = image.read([call.reshaped(place, flat) for place in places])
        for tap in (rows, columns):
            weight = call.reshaped(call.expanded(tap[1], shape), flat)
            read = image.op("Mul", read, weight)
        values.append(read)
    combined = values[0]
    for value in values[1:]:
        combined = image.op("Max" if best else "Add", combined, value)
    held = image.op("And", axes[0].inside, axes[1].inside)
    held = call.reshaped(call.expanded(held, shape), flat)
    combined = image.op("Where", held, combined, 0.0)
    split = call.reshaped(combined, [channels, total, bins[0], counts[0], bins[1], counts[1]])
    reduce = "ReduceMax" if best else "ReduceMean"
    result = call.one(reduce, split, axes=[3, 5], keepdims=0)
    return call.one("Transpose", result, perm=[1, 0, 2, 3])


@dataclass(frozen=True)
class _Samples:
    """Samples along an axis: whether they are near the image, their pixels and weights."""

    inside: Value
    taps: list[tuple[Value, Value]]


def _together(call: Call, x: Value) -> Value:
    """The images of a batch as one: [1, channels, all pixels]."""
    batch, channels, *sizes = x.shape
    turned = x if batch == 1 else call.one("Transpose", x, perm=[1, 0, 2, 3])
    return call.reshaped(turned, [1, channels, batch * prod(sizes)])


def _samples(image: Image, span: _Span, axis: int, bins: int, count: int) -> _Samples:
    """The samples of regions along an axis: [regions, samples, 1] or [regions, 1, samples]."""
    call = image.call
    size = image.sizes[1 + axis]
    total = span.first.shape[0]
    numbers = (np.arange(bins * count)[None] + 0.5) / count
    steps = call.builder.constant(numbers, span.first.dtype)
    moved = image.op("Mul", image.op("Div", span.extent, float(bins)), steps)
    position = image.op("Add", span.first, moved)
    shape = [total, bins * count, 1] if axis == 0 else [total, 1, bins * count]
    position = call.reshaped(position, shape)
    above = image.op("GreaterOrEqual", position, -1.0)
    inside = image.op("And", above, image.op("LessOrEqual", position, size))
    return _Samples(inside, image.taps(image.clamped(position, size), "linear"))
