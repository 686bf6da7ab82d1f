"""Pools without taps that read padding only; global ones where one window is the whole image."""

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from compiler.frontend.graph import Value
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.dead_taps import fit, live_taps
from compiler.frontend.rules.lower import explicit_window
from compiler.ir.operators import infer
from compiler.ir.operators.dtypes import FLOATS

Window = Mapping[str, list[int]]
"""The kernel, strides, dilations and pads of a pool."""


@rule("MaxPool", "AveragePool", "LpPool")
def rewrite_pool(call: Call) -> list[Value]:
    """A pool with explicit pads, whose windows have no taps outside the image alone."""
    image = call.data.shape[2:]
    given = {"kernel_shape": list(call.attributes["kernel_shape"]), **explicit_window(call)}
    (result, *_) = infer(call.op_type, call.inputs, call.attributes | given, len(call.used))
    counts = result.shape[2:]
    window = _cropped(image, counts, given)
    if _is_global(call, counts, window):
        pooled = [_global(call)]
    elif window is given:
        return call.emit(None, **given)
    else:
        pooled = call.emit(None, **window, ceil_mode=0)
    if window is given or not call.attributes.get("count_include_pad", 0):
        return pooled
    shares = _divisors(image, counts, window) / _divisors(image, counts, given)
    return [pooled[0] if (shares == 1).all() else call.one("Mul", pooled[0], call.scalar(shares))]


def _cropped(image: Sequence[int], counts: Sequence[int], given: Window) -> Window:
    """The window without dead taps and padded up to the last of `counts`; or the one given.

    A dilated window may be padded by more elements than it has, which no pool may be.
    """
    kernel, rank = given["kernel_shape"], len(counts)
    strides, dilations, before = given["strides"], given["dilations"], given["pads"][:rank]
    ends = zip(image, counts, kernel, strides, dilations, before, strict=True)
    after = [max((o - 1) * s + (k - 1) * d + 1 - n - b, 0) for n, o, k, s, d, b in ends]
    axes = zip(image, kernel, strides, dilations, zip(before, after, strict=True), strict=True)
    kept = [live_taps(*axis) or range(axis[1]) for axis in axes]
    if [len(taps) for taps in kept] == kernel:
        return given
    window = {**given, "pads": [*before, *after]}
    fit(window, kept, tuple(kernel))
    sizes = zip(window["pads"], window["kernel_shape"] * 2, strict=True)
    return window if all(pad < size for pad, size in sizes) else given


def _is_global(call: Call, counts: Sequence[int], window: Window) -> bool:
    """Whether the only window is the image, and there is a global pool for what is wanted."""
    whole = window["kernel_shape"] == [*call.data.shape[2:]] and not any(window["pads"])
    adjacent = all(d == 1 for d in window["dilations"])
    single = all(count == 1 for count in counts)
    return whole and adjacent and single and call.data.dtype in FLOATS and not any(call.used[1:])


def _global(call: Call) -> Value:
    order = {"p": call.attributes["p"]} if "p" in call.attributes else {}
    return call.one(f"Global{call.op_type}", call.data, **order)


def _divisors(image: Sequence[int], counts: Sequence[int], window: Window) -> np.ndarray:
    """How many elements an average that counts the padding divides each window's sum by."""
    rank = len(counts)
    pairs = zip(window["pads"][:rank], window["pads"][rank:], strict=True)
    axes = zip(
        image, counts, window["kernel_shape"], window["strides"], window["dilations"], pairs,
        strict=True,
    )  # fmt: skip
    return reduce(np.multiply.outer, [_elements(*axis) for axis in axes])


def _elements(
    image: int, count: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]
) -> np.ndarray:
    """How many taps of each window on an axis are in the image or its padding; at least 1."""
    at = np.arange(count)[:, None] * stride + np.arange(kernel) * dilation
    return np.maximum((at < image + sum(pads)).sum(1), 1)
