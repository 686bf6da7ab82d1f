"""Pools without taps that read padding only; global ones where one window is the whole image."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.dead_taps import fit, live_taps
from compiler.frontend.rules.lower import explicit_window
from compiler.frontend.semantics.windows import PoolAxis, pool_axes
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Value
from compiler.net.operators import infer
from compiler.net.operators.injective import TakenIndices
from compiler.tensors.dtypes import FLOATS

Window = Mapping[str, list[int]]
"""The kernel, strides, dilations and pads of a pool."""


@rule("MaxPool", "AveragePool", "LpPool")
def rewrite_pool(call: Call) -> list[Value]:
    """A pool with explicit pads, whose windows have no taps outside the image alone.

    Its indices are row-major: which of equal elements is taken does not depend on their order.
    """
    column_major = call.take("storage_order")
    shape = call.data.shape
    if call.onnxruntime:
        pooled = _by_onnxruntime(call)
    else:
        given = {"kernel_shape": list(call.attributes["kernel_shape"]), **explicit_window(call)}
        pooled = _explicit(call, given, _counts(call, given))
    if column_major and len(pooled) > 1 and call.used[1] and len(shape) > 3:
        pooled[1] = _column_major(call, pooled[1], shape)
    return pooled


def _counts(call: Call, window: Window) -> list[int]:
    """The number of windows on each axis."""
    (result, *_) = infer(call.op_type, call.inputs, call.attributes | {**window}, len(call.used))
    return list(result.shape[2:])


def _explicit(call: Call, given: Window, counts: Sequence[int]) -> list[Value]:
    """A pool of as many windows, without the taps that none of them needs."""
    image = call.data.shape[2:]
    window = _cropped(image, counts, given)
    if _is_global(call, counts, window):
        pooled = [_global(call)]
    elif window is given:
        return call.emit(None, **given)
    else:
        pooled = call.emit(None, **window, ceil_mode=0)
    if window is given or not call["count_include_pad"]:
        return pooled
    shares = _divisors(image, counts, window) / _divisors(image, counts, given)
    return [pooled[0] if (shares == 1).all() else call.one("Mul", pooled[0], call.scalar(shares))]


def _by_onnxruntime(call: Call) -> list[Value]:
    """A pool with onnxruntime's windows, some of which crop the image or reach over more."""
    shape = call.data.shape
    axes = pool_axes(call, as_onnxruntime=True)
    counts = [axis.count for axis in axes]
    if 0 in counts:
        kinds = (call.data.dtype, "int64")[: len(call.used)]
        return [call.filled(0, (*shape[:2], *counts), dtype) for dtype in kinds]
    parts = [_on_part(call, axis) for axis in axes]
    taken = {axis: TakenIndices.of(part) for axis, (part, _) in enumerate(parts, 2)}
    call.inputs[0] = call.elements(call.data, taken)
    call.drop("auto_pad")
    given = {
        "kernel_shape": [axis.kernel for _, axis in parts],
        "strides": [axis.stride for _, axis in parts],
        "dilations": [axis.dilation for _, axis in parts],
        "pads": [*(axis.before for _, axis in parts), *(axis.after for _, axis in parts)],
    }
    if _cropped(call.data.shape[2:], counts, given) is given and counts != _counts(call, given):
        raise Unsupported("its windows have no kernel", call.onnxruntime[0].remedy)
    pooled = _explicit(call, given, counts)
    if call["count_include_pad"]:
        pooled = [call.one("Mul", pooled[0], call.scalar(_share(axes, parts)))]
    if len(pooled) > 1 and call.data.shape != shape:
        pooled[1] = _indices_in(call, pooled[1], shape, [part for part, _ in parts])
    return pooled


def _on_part(call: Call, axis: PoolAxis) -> tuple[range, PoolAxis]:
    """The elements of an axis that windows read, and the windows on these, with pads from 0.

    Where no window fits the cropped image, a maximum or a norm reads elements after its end.
    """
    reads_on = axis.room < 0 and call.op_type != "AveragePool"
    end = axis.image + (0 if reads_on else min(axis.after, 0))
    if axis.room >= 0:
        start = max(-axis.before, 0)
        before, after = max(axis.before, 0), max(axis.after, 0)
        return range(start, end), replace(axis, image=end - start, before=before, after=after)
    taps = [t for t in range(-axis.before, axis.span - axis.before, axis.dilation) if 0 <= t < end]
    if not taps:
        raise Unsupported("its only window reads padding alone", call.onnxruntime[0].remedy)
    return range(taps[0], taps[-1] + 1, axis.dilation), PoolAxis(
        len(taps), len(taps), 1, 1, before=0, after=0
    )


def _share(axes: Sequence[PoolAxis], parts: Sequence[tuple[range, PoolAxis]]) -> float:
    """The elements of the only windows in the image, of those in the image or its padding."""
    shares = [
        len(part) / len(range(0, axis.image + axis.before + axis.after, axis.dilation))
        for axis, (part, _) in zip(axes, parts, strict=True)
        if axis.room < 0
    ]
    return float(np.prod(shares))


def _indices_in(call: Call, indices: Value, shape: Sequence[int], parts: Sequence[range]) -> Value:
    """Indices in the parts of an image as those in the whole one."""
    rest, places = _places(call, indices, [len(part) for part in parts])
    for size, part, place in zip(shape[2:], parts, places, strict=True):
        whole = _with(call, "Add", _with(call, "Mul", place, part.step), part.start)
        rest = call.one("Add", _with(call, "Mul", rest, size), whole)
    return rest


def _column_major(call: Call, indices: Value, shape: Sequence[int]) -> Value:
    """Indices in images whose first axis is the densest."""
    rest, places = _places(call, indices, shape[2:])
    for size, place in zip(reversed(shape[2:]), reversed(places), strict=True):
        rest = call.one("Add", _with(call, "Mul", rest, size), place)
    return rest


def _places(call: Call, indices: Value, sizes: Sequence[int]) -> tuple[Value, list[Value]]:
    """The number of the image that an index is in, and its place along each axis."""
    rest = indices
    places = list[Value]()
    for size in reversed(sizes):
        places.append(_with(call, "Mod", rest, size))
        rest = _with(call, "Div", rest, size)
    return rest, places[::-1]


def _with(call: Call, op_type: str, value: Value, number: int) -> Value:
    return call.one(op_type, value, call.builder.constant(number, "int64"))


def _cropped(image: Sequence[int], counts: Sequence[int], given: Window) -> Window:
    """The window without dead taps and padded up to the last of `counts`; or the one given.

    A dilated window may be padded by more elements than it has, which no pool may be.
    """
    kernel = given["kernel_shape"]
    rank = len(counts)
    strides = given["strides"]
    dilations = given["dilations"]
    before = given["pads"][:rank]
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
    whole = not any(window["pads"]) and window["kernel_shape"] == [*call.data.shape[2:]]
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
    # counted, as all taps of all windows may be the square of the image
    room = image + sum(pads) - np.arange(count) * stride
    return np.clip(-(-room // dilation), 1, kernel)
