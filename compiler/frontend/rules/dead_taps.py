"""Taps of windows that read padding only, as wide dilations of small images have."""

import numpy as np

from compiler.frontend.rules.call import Call
from compiler.graph.rewriting.weights import Array
from compiler.net.graph import Inputs
from compiler.tensors.arithmetic import ceil_div


def live_taps(
    image: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]
) -> range | None:
    """The taps from the first to the last that read the image; None if all must stay.

    Those before and after are cropped with the padding that they read: there must be as much.
    """
    output = (image + sum(pads) - (kernel - 1) * dilation - 1) // stride + 1
    if output < 1:
        return None
    last = (output - 1) * stride
    # Other taps are before the image at the last position, or after it at the first one: a window
    # may be much longer than the image, so its taps are not counted.
    lowest, end = ceil_div(pads[0] - last, dilation), ceil_div(image + pads[0], dilation)
    near = range(max(0, lowest), min(kernel, end))
    live = (k for k in near if reads_image(k * dilation - pads[0], last, stride, image))
    first = next(live, None)
    if first is None:
        return None
    final = next(
        k for k in reversed(near) if reads_image(k * dilation - pads[0], last, stride, image)
    )
    before, after = first * dilation, (kernel - 1 - final) * dilation
    return range(first, final + 1) if before <= pads[0] and after <= pads[1] else None


def reads_image(first: int, last: int, stride: int, image: int) -> bool:
    """Whether a position from `first` on, in steps of the stride, is inside the image."""
    step = -(min(first, 0) // stride) * stride  # the first that is not before the image
    return step <= last and first + step < image


def crop_dead_taps(call: Call, attributes: dict[str, list[int]]) -> Inputs:
    """The inputs of a convolution without dead taps, its attributes changed to suit."""
    weight = call.operand(1)
    array = weight.array if weight.code is None else None
    rank = len(attributes["dilations"])
    if array is None or max(attributes["dilations"]) == 1 or not np.isfinite(array).all():
        return call.inputs
    pads = attributes["pads"]
    sizes = call.data.shape[2:], array.shape[2:], attributes["strides"], attributes["dilations"]
    axes = zip(*sizes, zip(pads[:rank], pads[rank:], strict=True), strict=True)
    live = [live_taps(*axis) for axis in axes]
    kept = [taps or range(size) for taps, size in zip(live, array.shape[2:], strict=True)]
    cropped: Array = array[(..., *(slice(taps.start, taps.stop) for taps in kept))]
    if cropped.shape == array.shape:
        return call.inputs
    fit(attributes, kept, array.shape[2:])
    smaller = call.builder.constant(np.ascontiguousarray(cropped), weight.dtype)
    return [call.data, smaller, *call.inputs[2:]]


def fit(attributes: dict[str, list[int]], kept: list[range], kernel: tuple[int, ...]) -> None:
    """Shorten kernel and padding by the taps that are gone."""
    steps = attributes["dilations"]
    before = [taps.start * d for taps, d in zip(kept, steps, strict=True)]
    after = [(k - taps.stop) * d for k, taps, d in zip(kernel, kept, steps, strict=True)]
    cropped = zip(attributes["pads"], [*before, *after], strict=True)
    attributes["pads"] = [pad - gone for pad, gone in cropped]
    attributes["kernel_shape"] = [len(taps) for taps in kept]
    sizes = zip(attributes["kernel_shape"], steps, strict=True)
    attributes["dilations"] = [1 if size == 1 else d for size, d in sizes]
