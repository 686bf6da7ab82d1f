"""Hypothesis generators of the operators that ONNX does not have."""

from collections.abc import Callable

import ml_dtypes
import numpy as np

from compiler.tensors.dtypes import ELEMENT_BYTES
from tests.operator_cases import FLOATS, Array, Case, Draw


def float8_contraction(d: Draw) -> Case:
    """MatMulFloat8 and ConvFloat8 of either type of float8."""
    first, second = (d.one(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2) for _ in range(2))
    if d.flag():
        rows, inner, columns = d.integers(3, 1, 9)
        x, w = d.array((rows, inner), "float32"), d.array((inner, columns), "float32")
        return Case("MatMulFloat8", [x.astype(first), w.astype(second)])
    kernel, inner = d.integers(2, 1, 3), d.integer(1, 5)
    x = d.array((d.integer(1, 2), inner, *(2 * k for k in kernel)), "float32")
    w = d.array((d.integer(1, 3), inner, *kernel), "float32")
    pads = [d.integer(0, k - 1) for k in kernel * 2]
    return Case("ConvFloat8", [x.astype(first), w.astype(second)], {"pads": pads})


def fourier_transform(d: Draw) -> Case:
    """FourierTransform with either sign, of rows that are shorter, or half a spectrum."""
    length, half = d.integer(1, 40), d.flag()
    have = length // 2 + 1 if half else d.integer(1, length)
    shape = (d.integer(1, 3), have)
    parts: list[Array | None] = [d.array(shape, "float32") for _ in range(1 + d.flag())]
    flags = {"inverse": int(d.flag()), "half": int(half)}
    attributes = {"length": length, "bins": d.integer(1, length), **flags}
    return Case("FourierTransform", [*parts], attributes, 1 if half else 2)  # which are real


def kept_boxes(d: Draw) -> Case:
    """KeptBoxes of few coordinates, in half the uses with NaN and infinity among all numbers."""
    images, classes, count, odd = d.integer(1, 2), d.integer(1, 3), d.integer(1, 40), d.flag()
    corners = d.array((images, count, 2, 2), "float32", odd)
    boxes = np.sort(corners, axis=2).reshape(images, count, 4)
    scores = d.array((images, classes, count), "float32", odd)
    widest = np.array(d.one(0.0, 0.25, 0.5, 1.0), np.float32)
    least = d.array((), "float32") if d.flag() else None
    return Case("KeptBoxes", [boxes, scores, widest, least], {"most": d.integer(1, count)}, 2)


def nonzero_positions(d: Draw) -> Case:
    """NonZeroPositions of as many elements as its count says, also of none, and of a scalar."""
    x = d.array(d.shape(), d.one(*ELEMENT_BYTES), True)
    x = np.where(d.random.random(x.shape) < d.one(0, 0.3, 1), np.zeros_like(x), x).astype(x.dtype)
    return Case("NonZeroPositions", [x], {"count": int(np.count_nonzero(x))}, 2)


def partial_ranges(d: Draw) -> Case:
    """PartialRanges in one part: which elements others have is the kernel's choice."""
    return Case("PartialRanges", [d.array(d.shape(1, empty=False), "float32")], {"count": 1}, 2)


def positions(d: Draw) -> Case:
    """Positions, also none, and downwards."""
    start = np.array(d.integer(-3, 3), d.one(np.int32, np.int64))
    attributes = {"first": d.integer(-5, 5), "step": d.integer(-3, 3), "count": d.integer(0, 9)}
    return Case("Positions", [start], attributes)


def recurrence(d: Draw) -> Case:
    """Recurrence of each cell and direction, with its optional operands or without."""
    cell, direction = d.one("RNN", "GRU", "LSTM"), d.one("forward", "reverse", "bidirectional")
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[cell]
    steps, batch, hidden = d.integers(3, 1, 4)
    directions, dtype = 1 + (direction == "bidirectional"), d.one("float32", "float64")
    functions = {"RNN": 1, "GRU": 2, "LSTM": 3}[cell]
    attributes = {
        "cell": cell,
        "direction": direction,
        "activations": [d.one("Tanh", "Sigmoid", "Relu", "HardSigmoid") for _ in range(functions)],
        "activation_alpha": [0.25] * functions,
        "activation_beta": [0.5] * functions,
    }
    inputs: list[Array | None] = [
        d.array((steps, batch, directions * gates * hidden), dtype),
        d.array((directions, gates * hidden, hidden), dtype),
        d.array((directions, hidden), dtype) if cell == "GRU" and d.flag() else None,
        d.random.integers(0, steps + 1, batch).astype(np.int32) if d.flag() else None,
    ]
    state = (directions, batch, hidden)
    inputs += [d.array(state, dtype) for _ in range(1 + (cell == "LSTM")) if inputs[3] is not None]
    return Case("Recurrence", inputs, attributes, 2 + (cell == "LSTM"))


def scattered_rows(d: Draw) -> Case:
    """ScatterOrder, and SegmentReduce of what it gives."""
    slots, count = d.integer(1, 5), d.integer(1, 8)
    indices = d.random.integers(-slots, slots, count).astype(d.one(np.int32, np.int64))
    if d.flag():
        return Case("ScatterOrder", [indices], {"slots": slots}, 2)
    named, tail = indices % slots, d.shape(0, 2, empty=False)
    starts = np.searchsorted(np.sort(named), np.arange(slots + 1)).astype(np.int32)
    order = np.argsort(named, kind="stable").astype(np.int32)
    dtype = d.one(*FLOATS)
    updates, data = d.array((count, *tail), dtype), d.array((slots, *tail), dtype)
    reduction = d.one("add", "mul", "max", "min")
    return Case("SegmentReduce", [updates, data, starts, order], {"reduction": reduction})


FAMILIES: dict[str, Callable[[Draw], Case]] = {
    f.__name__: f
    for f in (
        float8_contraction,
        fourier_transform,
        kept_boxes,
        nonzero_positions,
        partial_ranges,
        positions,
        recurrence,
        scattered_rows,
    )
}
"""The generators of this module by name."""
