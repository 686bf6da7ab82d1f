"""The rule for RoiAlign: samples of regions of an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from compiler.frontend.graph import Unsupported, Value
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.sampling import Image, component, floating
from compiler.frontend.rules.types import in_type


@rule("RoiAlign")
def rewrite_region_align(call: Call) -> list[Value]:
    """The mean or maximum of samples of each bin; their number must be given."""
    count = call.attributes.get("sampling_ratio", 0)
    if count < 1:
        raise Unsupported("each region decides how often it is sampled", "set sampling_ratio")
    x, regions, batches = floating(call, call.data), call.operand(1), call.operand(2)
    batch, channels, *sizes = x.shape
    total, bins = regions.shape[0], [call.attributes.get(f"output_{n}", 1) for n in _SIDES]
    if 0 in (*x.shape, total):
        empty = np.zeros((total, channels, *bins))
        return [call.builder.constant(empty, call.data.dtype)]
    image = Image(call, _together(call, x), (batch, *sizes), "border")
    axes = [_samples(image, in_type(call, regions, x.dtype), i, bins[i]) for i in (0, 1)]
    shape = [total, bins[0] * count, bins[1] * count]
    first = in_type(call, call.reshaped(batches, [total, 1, 1]), x.dtype)
    full = call.one("Expand", first, call.vector(shape))
    flat = [1, 1, prod(shape)]
    best = call.attributes.get("mode", "avg") == "max"
    values: list[Value] = []
    for rows, columns in product(*[axis.taps for axis in axes]):
        places = [full, *(_spread(call, tap[0], shape) for tap in (rows, columns))]
        read = image.read([call.reshaped(place, flat) for place in places])
        for tap in (rows, columns):
            weight = call.reshaped(_spread(call, tap[1], shape), flat)
            read = image.op("Mul", read, weight)
        values.append(read)
    combined = values[0]
    for value in values[1:]:
        combined = image.op("Max" if best else "Add", combined, value)
    held = image.op("And", axes[0].inside, axes[1].inside)
    held = call.reshaped(call.one("Expand", held, call.vector(shape)), flat)
    combined = image.op("Where", held, combined, 0.0)
    split = call.reshaped(combined, [channels, total, bins[0], count, bins[1], count])
    reduce = "ReduceMax" if best else "ReduceMean"
    result = call.one(reduce, split, call.vector([3, 5]), keepdims=0)
    result = call.one("Transpose", result, perm=[1, 0, 2, 3])
    return [in_type(call, result, call.data.dtype)]


_SIDES = ("height", "width")


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


def _spread(call: Call, value: Value, shape: Sequence[int]) -> Value:
    return call.one("Expand", value, call.vector(shape))


def _samples(image: Image, regions: Value, axis: int, bins: int) -> _Samples:
    """The samples of all regions along an axis: [regions, samples, 1] or [regions, 1, samples]."""
    call, size = image.call, image.sizes[1 + axis]
    get, total = call.attributes.get, regions.shape[0]
    count = get("sampling_ratio", 0)
    half = get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    half = half and call.version >= 16
    ends = [component(call, regions, number, 1) for number in (1 - axis, 3 - axis)]
    scale = get("spatial_scale", 1.0)
    first, last = (call.reshaped(image.op("Mul", end, scale), [total, 1]) for end in ends)
    if half:
        first, last = image.op("Sub", first, 0.5), image.op("Sub", last, 0.5)
    extent = image.op("Sub", last, first)
    extent = extent if half else image.op("Max", extent, 1.0)
    numbers = [[(number + 0.5) / count for number in range(bins * count)]]
    steps = call.builder.constant(numbers, regions.dtype)
    moved = image.op("Mul", image.op("Div", extent, float(bins)), steps)
    position = image.op("Add", first, moved)
    shape = [total, bins * count, 1] if axis == 0 else [total, 1, bins * count]
    position = call.reshaped(position, shape)
    above = image.op("GreaterOrEqual", position, -1.0)
    inside = image.op("And", above, image.op("LessOrEqual", position, float(size)))
    return _Samples(inside, image.taps(image.clamped(position, size), "linear"))
